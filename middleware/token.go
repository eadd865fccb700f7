package middleware

import (
	"context"
	"slices"
	"time"
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
	// Scopes ("scope") are the granted scopes.
	Scopes []string
	// Expiry ("exp") and IssuedAt ("iat").
	Expiry   time.Time
	IssuedAt time.Time
	// ID ("jti") names the token. It may be empty.
	ID string
}

// HasScope reports whether all the named scopes were granted.
func (t *Token) HasScope(scopes ...string) bool {
	for _, scope := range scopes {
		if !slices.Contains(t.Scopes, scope) {
			return false
		}
	}
	return true
}

// Principal names the subject among all issuers, as "issuer|subject". Bind sessions and
// other state to it: a session id is no proof of who is calling.
func (t *Token) Principal() string { return t.Issuer + "|" + t.Subject }

// passKey is the context key of a [pass].
type passKey struct{}

// pass is the proof that a guard let a request through.
type pass struct {
	guard *Guard
	token *Token
}

// TokenFrom returns the verified token of a request that went through
// [Guard.Protect], from the context of that request.
func TokenFrom(ctx context.Context) (*Token, bool) {
	p, ok := ctx.Value(passKey{}).(*pass)
	if !ok {
		return nil, false
	}
	return p.token, true
}
