package upstream

import (
	"context"
	"errors"
	"fmt"
)

// The kinds of errors. Each [*Error] is exactly one of them, see [errors.Is].
var (
	// ErrUnavailable: the provider does not answer, or not in time, or too many wait for it. Try
	// again later: 503.
	ErrUnavailable = errors.New("upstream: the provider is unavailable")
	// ErrInvalid: the provider answered something that must not be believed: a token with a
	// wrong signature or nonce, another issuer, nonsense. 502 for an answer, 400 for a callback;
	// see [Error.Status].
	ErrInvalid = errors.New("upstream: the provider's answer is not valid")
	// ErrDenied: the provider said no, or the person there did (access_denied, login_required).
	ErrDenied = errors.New("upstream: the provider refused")
	// ErrNotAllowed: the person is known now, but [Provider.Allow] does not let them in. 403.
	ErrNotAllowed = errors.New("upstream: not allowed to come in")
	// ErrMisconfigured: the provider does not accept this server's own data (invalid_client,
	// redirect URI), or lacks what the configuration needs. The operator must act. 502.
	ErrMisconfigured = errors.New("upstream: the configuration does not fit the provider")

	// ErrGone is the answer of [Client.Recheck] when the provider said invalid_grant, and nothing
	// else. If the refresh token was the newest one, the person must come again.
	ErrGone = errors.New("upstream: the provider does not know this sign-in any more")
	// ErrUnknown is every other failure of [Client.Recheck]: nothing is known, ask again later.
	ErrUnknown = errors.New("upstream: it is not known whether the sign-in still stands")
)

// Reason says what happened, for a catalogue of sentences. [Error.Sentence] has the English ones.
type Reason string

// The reasons.
const (
	ReasonDown        Reason = "down"         // no connection, 5xx, or metadata cannot be read
	ReasonSlow        Reason = "slow"         // no answer within the limits
	ReasonBusy        Reason = "busy"         // too many calls wait for this provider
	ReasonNonsense    Reason = "nonsense"     // an answer that cannot be read, too large, or a redirect
	ReasonIssuer      Reason = "issuer"       // metadata, callback or token name another issuer
	ReasonCallback    Reason = "callback"     // the callback has neither a code nor an error, or is too long
	ReasonCode        Reason = "code"         // invalid_grant for the code: used, expired, or of another sign-in
	ReasonToken       Reason = "token"        // an ID token that must not be believed
	ReasonExpired     Reason = "expired"      // a token that is too old or from the future
	ReasonNonce       Reason = "nonce"        // an ID token for another sign-in
	ReasonAge         Reason = "age"          // the person did not sign in recently enough at the provider
	ReasonPerson      Reason = "person"       // userinfo or API speak of another person, or of nobody
	ReasonDenied      Reason = "denied"       // access_denied, or another refusal of the provider
	ReasonGroups      Reason = "groups"       // groups are needed and the provider does not name them all
	ReasonNotAllowed  Reason = "not-allowed"  // allow does not match
	ReasonClient      Reason = "client"       // invalid_client, unauthorized_client
	ReasonSettings    Reason = "settings"     // another refusal of our request: invalid_request, invalid_scope
	ReasonUnsupported Reason = "unsupported"  // the provider lacks something that is needed
	ReasonGone        Reason = "gone"         // invalid_grant for a refresh token
	ReasonInterrupted Reason = "interrupted"  // the caller's context ended
	ReasonLogoutToken Reason = "logout-token" // a logout token that must not be believed
	ReasonNoLogout    Reason = "no-logout"    // this provider has no back-channel logout
	ReasonNoRecheck   Reason = "no-recheck"   // this provider gives nothing to ask again with
)

// Error is the error of all methods of [Client]. Nothing in it is secret: no code, no token.
type Error struct {
	// Provider is the ID of the provider, Title its name for people.
	Provider, Title string
	// Kind is one of the Err… values of this package.
	Kind error
	// Reason says what happened.
	Reason Reason
	// Code is the provider's error code, such as "access_denied", if it sent a registered one or
	// one of the same form: at most 64 of a-z, 0-9, "_", "-", ".".
	Code string
	// Unsent says that the provider cannot have got the code or refresh token: there was no
	// connection, or not even metadata. So the provider has used neither.
	Unsent bool
	// Detail is for the log only. It may quote the provider, cleaned and shortened.
	Detail string
}

// Error returns the provider, what happened and the detail, for logs.
func (e *Error) Error() string {
	text := fmt.Sprintf("provider %s: %s", e.Provider, e.Reason)
	if e.Code != "" {
		text += " (" + e.Code + ")"
	}
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	return text
}

// with returns a copy of an error, which others may have too, with another Unsent.
func (e *Error) with(unsent bool) *Error {
	changed := *e
	changed.Unsent = unsent
	return &changed
}

// Unwrap returns the kind.
func (e *Error) Unwrap() error { return e.Kind }

// Is says that an error of an ended context is one: errors.Is(err, context.Canceled) holds for
// [ReasonInterrupted].
func (e *Error) Is(target error) bool {
	return e.Reason == ReasonInterrupted && target == context.Canceled
}

// Status is the HTTP status of a page about the error: 400 for a callback that cannot be used,
// 403 for a refusal, 502 for a provider that answers what must not be believed, 503 for one that
// does not answer.
func (e *Error) Status() int {
	switch {
	case e.Kind == ErrUnavailable || e.Kind == ErrUnknown:
		return 503
	case e.Kind == ErrDenied || e.Kind == ErrNotAllowed || e.Kind == ErrGone:
		return 403
	case e.Reason == ReasonCallback || e.Reason == ReasonCode || e.Reason == ReasonLogoutToken || e.Reason == ReasonNoLogout:
		return 400
	}
	return 502
}
