package middleware

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"time"

	"gatehouse.example/audit"
	"gatehouse.example/metadata"
)

// Config configures a [Guard]. Resource is required, and so is one of AuthorizationServers, Issuers
// and SharedIssuers.
type Config struct {
	// Resource is the URL that clients dial, in canonical form: the audience of every
	// accepted token (RFC 8707 section 2). It is https, or http on loopback.
	Resource string
	// Audiences are further accepted values of "aud", compared byte for byte. Set it when an
	// authorization server uses an identifier of its own for the resource.
	Audiences []string
	// AuthorizationServers are the issuers that the metadata of the resource names to clients,
	// byte for byte as their own metadata spells them. Each is https, or http on loopback. Tokens
	// of each of them are accepted: those of RFC 9068, unless Issuers says something else. The
	// default are the URLs of Issuers.
	AuthorizationServers []string
	// Issuers says how the tokens of single issuers are judged. Set it for identity providers
	// whose tokens are not those of RFC 9068. An issuer that is not among the
	// AuthorizationServers is accepted and not announced, for clients that get their tokens
	// elsewhere.
	Issuers []Issuer
	// SharedIssuers replaces Issuers by issuers that several guards share, so that their keys are
	// fetched once. Set it where one process serves many resources. All of them are accepted, see
	// [Issuers.Only]; AuthorizationServers names some of them. StaleKeys, Client, Now and
	// ObserveKeyFetch belong to the issuers, and are refused here.
	SharedIssuers *Issuers
	// Introspection configures token introspection, by issuer. Set it for issuers of opaque
	// tokens, and where revoked tokens must be refused before they expire. Without an entry,
	// the guard verifies the signature and the claims of a token only.
	Introspection map[string]Introspection
	// TokenKinds are further kinds of tokens, which a [Verifier] of yours verifies.
	TokenKinds []TokenKind
	// Before is the guard of the same resource that this one replaces while the process runs. Set it
	// to go on with its memory of proofs, also if one of the two accepts none, with the keys of issuers
	// that are configured as they were, and with what was asked of providers that count
	// ([Introspection.PerHour]).
	Before *Guard
	// Scopes are the scopes that the metadata of the resource lists.
	Scopes []string
	// ChallengeScopes are the scopes in the challenge for a client without a token. The
	// default is Scopes; name fewer to let clients start small and step up.
	ChallengeScopes []string
	// DPoP says whether tokens that are bound to a key of their client are accepted. By default
	// they are refused.
	DPoP DPoP
	// ClientCertificates says where the certificates of clients come from. By default tokens that
	// are bound to a certificate are refused.
	ClientCertificates ClientCertificates
	// Policy sets the scopes that each operation needs. Without one, every valid token may do
	// everything that the handler allows, and the guard does not read bodies.
	Policy Policy
	// Optional admits requests without credentials to operations that need no scopes. Set it
	// when a part of the server is public. Bad credentials are refused all the same.
	Optional bool
	// EndStreams ends the context of a request when its token expires. Set it when the handler
	// has long streams, so that they do not outlive the token that opened them.
	EndStreams bool
	// Sessions binds the session ids and event ids that the handler issues to the caller, so
	// that no other caller can use the session or resume the stream, and seals the cursors of
	// lists that the policy filters. Set it when several processes serve the resource, so that
	// they share a key. The default is a random key of this guard.
	Sessions *Handles
	// InsecureUnboundSessions leaves session ids and event ids as they are, and admits the
	// transport of revision 2024-11-05. It is safe only in front of a handler that itself
	// binds each session and each stream to the subject of its first token: many official SDKs
	// do not, and then any valid token can use a session whose id is known. Cursors are sealed
	// all the same, with a random key of this guard.
	InsecureUnboundSessions bool
	// ResourceName and ResourceDocumentation describe the resource to people, in clients.
	ResourceName          string
	ResourceDocumentation string
	// AllowedOrigins applies to loopback only. Set it when web pages of other origins, such as
	// "https://inspector.example.org", must be able to call the server, besides pages on
	// loopback and of the resource itself. "*" allows every origin.
	AllowedOrigins []string
	// TrustedProxies are the networks of the reverse proxies in front of the handler. Set it
	// behind a proxy, so that the guard uses X-Forwarded-Host and X-Forwarded-For, which it
	// ignores from all other addresses.
	TrustedProxies []netip.Prefix
	// MaxBody is the maximum size of a body that the guard reads for the policy, in bytes. Set
	// it lower when messages are small, to bound memory. The default is 4 MiB.
	MaxBody int
	// BodyTime is the time in which the body of a request must arrive; it grows by a second
	// for each 16 KiB received. It replaces ReadTimeout of http.Server, and needs a
	// ResponseWriter that supports deadlines of http.ResponseController. The default is 30
	// seconds. Set it below zero when your listener bounds that time.
	BodyTime time.Duration
	// MaxToken is the maximum size of an access token, in bytes. Set it higher for providers that
	// put many groups or roles into tokens; MaxHeaderBytes of your http.Server must leave room
	// for it. The default is 8 KiB, the maximum 64 KiB.
	MaxToken int
	// CachedTokens is the maximum number of verified tokens in the cache, which keeps them
	// until they expire at the latest. The default is 8192; a negative number disables the
	// cache.
	CachedTokens int
	// StaleKeys is the maximum age of keys while their issuer cannot be reached, counted from
	// their fetch; older keys lead to 503. The max-age of the issuer applies in any case. Set it
	// shorter when a withdrawn key must end sooner, longer when the issuer may be unreachable
	// for days. The default is 24 hours; below zero, keys end with the max-age.
	StaleKeys time.Duration
	// Client fetches the metadata and keys of the issuers, and sends introspection requests.
	// Set it to use a proxy or your own certificate authorities. Its redirect policy and its
	// cookies are not used. The default timeout is five seconds.
	Client *http.Client
	// Now is the clock. Set it in tests. The default is time.Now.
	Now func() time.Time
	// Observe is called for every decision, for logs and metrics. It runs in the goroutine of
	// the request and must not block.
	Observe func(*http.Request, Event)
	// Audit is called for every decision too, with what an audit trail wants of it ([AuditEvent]):
	// package audit/trail writes one. It runs in the goroutine of the request, before the handler.
	Audit func(audit.Event)
	// ObserveKeyFetch is called for every fetch of the keys of an issuer, and
	// ObserveIntrospection for every token that is looked up at one. Tokens and keys in a cache
	// cause neither.
	ObserveKeyFetch, ObserveIntrospection Hook
	// ObservePart is called for each group of rules that a request is judged by, for traces. Without it
	// that costs nothing.
	ObservePart PartHook
	// Logger logs decisions at level debug and failures of issuers at level warn. No token is
	// logged. The default discards all lines.
	Logger *slog.Logger
}

// validate finds the mistakes that the validation of the metadata document does not find.
func (c *Config) validate() error {
	var errs []error
	for _, scope := range c.ChallengeScopes {
		errs = append(errs, validScope(scope))
	}
	if slices.Contains(c.Audiences, "") {
		errs = append(errs, errors.New("an audience is empty"))
	}
	if c.Sessions != nil && c.InsecureUnboundSessions {
		errs = append(errs, errors.New("sessions cannot be bound and unbound: set Sessions or InsecureUnboundSessions"))
	}
	if c.Sessions != nil && !c.Sessions.usable() {
		errs = append(errs, errors.New("the handles for sessions have no key: make them with NewHandles"))
	}
	if c.Sessions != nil && len(c.Policy.Routes) > 0 {
		errs = append(errs, errors.New("a policy with routes binds no sessions: leave out Sessions"))
	}
	if c.MaxToken < 0 || c.MaxToken > maxMaxToken {
		errs = append(errs, fmt.Errorf("tokens have 1 to %d bytes, not %d", maxMaxToken, c.MaxToken))
	}
	return errors.Join(append(errs, validOrigins(c.AllowedOrigins), c.Policy.validate(),
		c.DPoP.validate(), c.ClientCertificates.validate(len(c.TrustedProxies) > 0),
		c.validIssuers(), c.validKinds(), validIntrospection(c.Introspection, c.issuers()))...)
}

func validScope(scope string) error {
	if !metadata.ValidScope(scope) || scope == "offline_access" {
		return fmt.Errorf("%q is not a scope of a resource", scope)
	}
	return nil
}

// validOrigins checks that origins have the form in which browsers send them (RFC 6454 section
// 6.2).
func validOrigins(origins []string) error {
	for _, origin := range origins {
		if origin == "*" {
			continue
		}
		canonical, err := metadata.Canonical(origin)
		u, err2 := url.Parse(canonical)
		if err != nil || err2 != nil || canonical != origin || u.Path != "" || u.RawQuery != "" {
			return fmt.Errorf("%q is not an origin such as https://app.example.com", origin)
		}
	}
	return nil
}
