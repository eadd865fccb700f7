// Package audit has the vocabulary in which the authorization server, the gateway and the
// middleware record what they did, so that one query answers what an application did after a
// consent.
//
// An [Event] is one thing that happened. Its kind is one of a closed list, [Kinds], and each text
// in it is of a type of its own, such as [Grant] or [Client], so that a secret does not fit in by
// accident. [Event.Clean] cuts texts, and replaces those that have the form of a secret.
//
// Package audit/trail writes events to a file that shows when a line of it was changed, and reads
// such files.
//
//	guard, err := middleware.New(middleware.Config{…, Audit: func(e audit.Event) { trail.Record(e) }})
package audit

import (
	"net/netip"
	"slices"
	"time"
)

// Kind is what happened: one of [Kinds]. Kinds are stored in files, so a word keeps its meaning
// for good.
type Kind string

// The kinds of events. Behind each stand the fields that it has, beside the time, the id of the
// request and the network of the requester, as far as they are known.
const (
	// ClientRegistered is a client that registered itself: Client, How (open or token).
	ClientRegistered Kind = "client-registered"
	// ClientChanged and ClientRemoved are a registration that its client, or the server because it
	// was idle, changed or removed: Client.
	ClientChanged Kind = "client-changed"
	ClientRemoved Kind = "client-removed"
	// SignedIn is a session that began: Person, How (the method), Provider.
	SignedIn Kind = "signed-in"
	// SignInRefused is a sign-in with a wrong password, passkey or code, or of a person who may
	// not come in, and a wrong password on the page that changes it: Person if there is one, How,
	// Provider.
	SignInRefused Kind = "sign-in-refused"
	// SignedOut is a session that ended, or all of a person: Person, How (replaced, if somebody else
	// signed in with the browser), Provider.
	SignedOut Kind = "signed-out"
	// PersonMade is an account that a sign-in made: Person, Provider.
	PersonMade Kind = "person-made"
	// PersonChanged is a password, passkey, second factor or account at a provider that was set or
	// removed, and recovery codes that were renewed or used: Person, How, Provider.
	PersonChanged Kind = "person-changed"
	// Consented is a grant that began: Person, Client, Grant, Resources, Scopes, How (asked or
	// unasked).
	Consented Kind = "consented"
	// Denied is a person who declined: Person, Client.
	Denied Kind = "denied"
	// ConsentForgotten is a decision that is not remembered any more: Person, Client.
	ConsentForgotten Kind = "consent-forgotten"
	// TokenIssued is the redemption of a code, TokenRefreshed that of a refresh token: Person,
	// Client, Grant, Resources, Scopes, Token.
	TokenIssued    Kind = "token-issued"
	TokenRefreshed Kind = "token-refreshed"
	// RefreshRepeated precedes a TokenRefreshed for a refresh token that was used again inside its
	// window, RefreshRecovered one whose rotation the store had lost: Person, Client, Grant.
	RefreshRepeated  Kind = "refresh-repeated"
	RefreshRecovered Kind = "refresh-recovered"
	// RefreshReused and CodeReused are a refresh token and a code that nobody should hold any more.
	// Their grant was revoked: Person, Client, Grant.
	RefreshReused Kind = "refresh-reused"
	CodeReused    Kind = "code-reused"
	// GrantRevoked is a grant that ended before its time; without Grant all of the person, or of the
	// person and the client: Person, Client, Grant, How.
	GrantRevoked Kind = "grant-revoked"
	// ResourceEnded is a resource that a client gave up in its grant: Client, Grant, Resources.
	ResourceEnded Kind = "resource-ended"
	// Refused is a request that got an error code: Code, and Person, Client and Grant as far as a
	// session, a client's authentication, or a genuine code or token proved them.
	Refused Kind = "refused"
	// KeyChanged is a signing key in a new state: Key, How (the state).
	KeyChanged Kind = "key-changed"
	// SettingsChanged are settings that a running server took: How, Target (their names).
	// SettingsRefused are some that it did not take, because of a mistake: How.
	SettingsChanged Kind = "settings-changed"
	SettingsRefused Kind = "settings-refused"
	// AdminActed is a command of an operator that is about to change something: How (the verb),
	// Target, Operator.
	AdminActed Kind = "admin-acted"
	// Started and Stopped are the begin and the regular end of a process.
	Started Kind = "started"
	Stopped Kind = "stopped"
	// Operation is a request that a guard let through: Issuer, Person, Client, Grant, Token,
	// Resources, Method, Name, Route. OperationRefused is one that it refused, with Code: the reason.
	Operation        Kind = "operation"
	OperationRefused Kind = "operation-refused"
	// HeldBack counts events that were not written, because anybody can cause any number of them:
	// Of, Code, Count.
	HeldBack Kind = "held-back"
	// Lost counts events that could not be written: Count.
	Lost Kind = "lost"
	// Chain is a line of the file about itself: see package audit/trail.
	Chain Kind = "chain"
)

var kinds = []Kind{
	ClientRegistered, ClientChanged, ClientRemoved, SignedIn, SignInRefused, SignedOut, PersonMade, PersonChanged,
	Consented, Denied, ConsentForgotten, TokenIssued, TokenRefreshed, RefreshRepeated, RefreshRecovered, RefreshReused, CodeReused,
	GrantRevoked, ResourceEnded, Refused, KeyChanged, SettingsChanged, SettingsRefused, AdminActed, Started, Stopped,
	Operation, OperationRefused, HeldBack, Lost, Chain,
}

// Kinds returns every kind of event.
func Kinds() []Kind { return slices.Clone(kinds) }

// Actor is who caused an event.
type Actor string

// The actors.
const (
	ByPerson   Actor = "person"
	ByClient   Actor = "client"
	ByProvider Actor = "provider"
	ByOperator Actor = "operator"
	ByServer   Actor = "server"
)

// The types of the texts in an event. None of them holds a secret: convert only what the comment
// says.
type (
	// RequestID is the id of a request in the log of the same process.
	RequestID string
	// Person is the subject of a person ("sub"): opaque, and the same in tokens.
	Person string
	// Client is the client_id of a client that exists.
	Client string
	// Grant is the id of a grant. It is not its code.
	Grant string
	// Token is the id of an access token ("jti"). It is not the token.
	Token string
	// Resource is the URI of a protected server that is configured.
	Resource string
	// Scope is a scope that is configured.
	Scope string
	// Key is the id of a signing key.
	Key string
	// Provider is the id of an identity provider in the configuration.
	Provider string
	// Issuer is an authorization server that a guard trusts.
	Issuer string
	// How is how it happened: a constant of the program.
	How string
	// Code is the error code or reason of a refusal: a constant of the program.
	Code string
	// Target is what an operator named on the command line: a person, client, grant, group,
	// resource or key; or the names of settings.
	Target string
	// Operator is the user of the operating system who ran a command.
	Operator string
	// Name is the name of a tool or prompt, the URI of a resource or the method of a message, as
	// a client with a valid token sent it.
	Name string
)

// Event is one thing that happened. Fields that do not apply are zero.
type Event struct {
	// Time is when it happened. [gatehouse.example/audit/trail] fills it in.
	Time time.Time `json:"time"`
	Kind Kind      `json:"kind"`
	By   Actor     `json:"by,omitempty"`

	Request RequestID `json:"request,omitempty"`
	// Network is the address of the requester, or its network of 64 bits if that is IPv6.
	Network netip.Prefix `json:"network,omitzero"`

	Person    Person     `json:"person,omitempty"`
	Client    Client     `json:"client,omitempty"`
	Grant     Grant      `json:"grant,omitempty"`
	Token     Token      `json:"token,omitempty"`
	Resources []Resource `json:"resources,omitempty"`
	Scopes    []Scope    `json:"scopes,omitempty"`
	Key       Key        `json:"key,omitempty"`
	Provider  Provider   `json:"provider,omitempty"`
	Issuer    Issuer     `json:"issuer,omitempty"`

	How      How      `json:"how,omitempty"`
	Code     Code     `json:"code,omitempty"`
	Target   Target   `json:"target,omitempty"`
	Operator Operator `json:"operator,omitempty"`
	Method   Name     `json:"method,omitempty"`
	Name     Name     `json:"name,omitempty"`
	Route    Name     `json:"route,omitempty"`

	// Of is the kind of the events that Count counts.
	Of    Kind `json:"of,omitempty"`
	Count int  `json:"count,omitempty"`
}

// NetworkOf returns the network of an address, as [Event.Network] has it; the zero Prefix for an
// address that is not valid.
func NetworkOf(addr netip.Addr) netip.Prefix {
	addr = addr.Unmap().WithZone("")
	bits := 64
	if addr.Is4() {
		bits = 32
	}
	network, _ := addr.Prefix(bits) // of an address that is not valid it is zero
	return network
}

// Resources returns URIs as the list of an event.
func Resources(uris ...string) []Resource { return as[Resource](uris) }

// Scopes returns scopes as the list of an event.
func Scopes(names ...string) []Scope { return as[Scope](names) }

func as[T ~string](texts []string) []T {
	out := make([]T, len(texts))
	for i, text := range texts {
		out[i] = T(text)
	}
	return out
}
