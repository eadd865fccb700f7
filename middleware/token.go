package middleware

import (
	"context"
	"slices"
	"time"

	"gatehouse.example/message"
)

// Token is what a verified access token says (RFC 9068 section 2.2). The token itself
// is not part of it. A Token is shared: do not change it.
type Token struct {
	// Subject ("sub") is the person or program that the token speaks for. It is unique
	// for the issuer only; see [Token.Principal].
	Subject string
	// ClientID ("client_id") is the client that the token was issued to.
	ClientID string
	// Issuer ("iss") is one of the configured authorization servers.
	Issuer string
	// Audience ("aud") holds this resource, and perhaps others.
	Audience []string
	// Scopes ("scope") are the granted scopes. [Token.HasScope] also knows what they imply.
	Scopes []string
	// Expiry ("exp") and IssuedAt ("iat").
	Expiry   time.Time
	IssuedAt time.Time
	// ID ("jti") names the token. It may be empty.
	ID string

	effective []string // the granted scopes and what they imply
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

// missing returns those of the scopes that the token does not cover, all without a token.
func (t *Token) missing(scopes []string) []string {
	var out []string
	for _, scope := range scopes {
		if t == nil || !t.HasScope(scope) {
			out = append(out, scope)
		}
	}
	return out
}

// Principal names the subject among all issuers, as "issuer|subject". Bind sessions and
// other state to it: a session id is no proof of who is calling.
func (t *Token) Principal() string { return t.Issuer + "|" + t.Subject }

// passKey is the context key of a [pass].
type passKey struct{}

// pass is the proof that a guard let a request through.
type pass struct {
	guard *Guard
	token *Token     // nil for a request without credentials
	id    message.ID // of the request of JSON-RPC in the body, zero if that was not read or has no answer
}

// TokenFrom returns the verified token of a request that went through
// [Guard.Protect], from the context of that request. There may be none where
// [Config.Optional] is set.
func TokenFrom(ctx context.Context) (*Token, bool) {
	p, ok := ctx.Value(passKey{}).(*pass)
	if !ok || p.token == nil {
		return nil, false
	}
	return p.token, true
}

// ErrorAnswer returns an error of JSON-RPC that answers the request whose context it is, for a
// handler behind [Guard.Protect] that has failed: clients know by its id which of their
// requests that was (JSON-RPC 2.0, section 5). The text is for the client. It is nil where the
// guard has not read the message, because its policy has no names, and for a message that is
// never answered.
func ErrorAnswer(ctx context.Context, text string) []byte {
	if p, ok := ctx.Value(passKey{}).(*pass); ok {
		return answerTo(p.id, text)
	}
	return nil
}
