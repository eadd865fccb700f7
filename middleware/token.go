package middleware

import (
	"context"
	"slices"
	"time"

	"gatehouse.example/message"
)

// Token holds the contents of a verified access token (RFC 9068 section 2.2), but not the token
// itself. A Token is shared between requests: do not change it.
type Token struct {
	// Subject ("sub") is the person or program that the token was issued for. It is unique
	// for the issuer only; see [Token.Principal].
	Subject string
	// ClientID ("client_id", or the claim of the issuer's [Profile]) is the client that the token
	// was issued to.
	ClientID string
	// Issuer ("iss") is one of the configured issuers, or that of a [TokenKind].
	Issuer string
	// Audience ("aud") holds this resource, and perhaps others. It is empty only in tokens that
	// [Issuer.InsecureNoAudience] accepts.
	Audience []string
	// Scopes ("scope", or the claim of the issuer's [Profile]) are the granted scopes. [Token.HasScope] also considers implied scopes.
	Scopes []string
	// Expiry ("exp") and IssuedAt ("iat").
	Expiry   time.Time
	IssuedAt time.Time
	// ID ("jti") identifies the token. It may be empty.
	ID string

	effective []string      // the granted scopes and the scopes that they imply
	ruled     []string      // the scopes that rules of the issuer name, see ScopeMap
	leeway    time.Duration // of the issuer
	own       *payload      // all claims; nil if they are not known
	bound     binding       // what the sender of the token has to possess
}

// HasScope reports whether all the named scopes were granted, or are implied by those that
// were (MCP, Step-Up Authorization Flow: servers MUST account for hierarchies).
func (t *Token) HasScope(scopes ...string) bool {
	for _, scope := range scopes {
		if !slices.Contains(t.Scopes, scope) && !slices.Contains(t.effective, scope) {
			return false
		}
	}
	return true
}

// missing returns the scopes that the token does not cover: all of them for a nil token.
func (t *Token) missing(scopes []string) []string {
	var out []string
	for _, scope := range scopes {
		if t == nil || !t.HasScope(scope) {
			out = append(out, scope)
		}
	}
	return out
}

// Principal returns an identifier of the subject that is unique among all issuers, as
// "issuer|subject". Bind sessions and other state to it: a session id does not authenticate the
// caller.
func (t *Token) Principal() string { return t.Issuer + "|" + t.Subject }

// passKey is the context key of a [pass].
type passKey struct{}

// pass is the proof that a guard let a request through.
type pass struct {
	guard *Guard
	token *Token     // nil for a request without credentials
	id    message.ID // of the JSON-RPC request in the body, zero if the body was not read or is another message
}

// TokenFrom returns the verified token from the context of a request that passed
// [Guard.Protect]. It returns false if there is none, which is possible behind Protect if
// [Config.Optional] is set.
func TokenFrom(ctx context.Context) (*Token, bool) {
	p, ok := ctx.Value(passKey{}).(*pass)
	if !ok || p.token == nil {
		return nil, false
	}
	return p.token, true
}

// ErrorAnswer returns an encoded JSON-RPC error response for the request with this context, for
// use in a failing handler behind [Guard.Protect]. It has the id of the request, by which the
// client recognises it (JSON-RPC 2.0, section 5), and text as its message. It is nil if the
// guard has not read the message, because its policy has no names, and for a message that is
// never answered.
func ErrorAnswer(ctx context.Context, text string) []byte {
	if p, ok := ctx.Value(passKey{}).(*pass); ok {
		return answerTo(p.id, text)
	}
	return nil
}
