package middleware

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"gatehouse.example/internal/strictjson"
	"gatehouse.example/metadata"
)

// Verifier verifies access tokens of a kind that this package does not know, such as keys for
// programs or another format of signed tokens. See [Config.TokenKinds]. It is called by several
// goroutines at once.
//
// Verify finds out whether a token is genuine, and returns what it says. The guard then judges that
// as it does for other tokens: audience, times, subject, client, scopes, policy. A token is let
// through only if Verify returns no error and the statement passes; the zero Statement does not.
//
// The result must depend on the token alone, because the guard may use it for other requests. An
// error that matches [ErrToken] means that the token is not valid (401); any other error, and a
// panic, that it cannot be verified at the moment (503). Errors are for the log and must not contain
// the token. The context ends after twelve seconds.
type Verifier interface {
	Verify(ctx context.Context, token string) (Statement, error)
}

// VerifierFunc is a function that is a [Verifier].
type VerifierFunc func(ctx context.Context, token string) (Statement, error)

// Verify calls the function.
func (f VerifierFunc) Verify(ctx context.Context, token string) (Statement, error) {
	return f(ctx, token)
}

// Statement is what a genuine token says. Subject, ClientID, Audience and Expiry are required.
type Statement struct {
	// Subject is the person or program that the token was issued for, ClientID the client that it was
	// issued to. Both are valid UTF-8.
	Subject, ClientID string
	// Audience are the resources that the token was issued for. One of them must be that of the
	// guard, or one of [Config.Audiences].
	Audience []string
	// Scopes are the granted scopes. What is not a scope token (RFC 6749 section 3.3) is left out.
	Scopes []string
	// Expiry is when the token, or this statement, ends. IssuedAt and NotBefore may be zero.
	Expiry, IssuedAt, NotBefore time.Time
	// ID identifies the token. It may be empty.
	ID string
	// Claims is a JSON object for [Token.Claims]. It may be empty. With a member "cnf" (RFC 7800)
	// the token is bound, and refused unless [Config.DPoP] or [Config.ClientCertificates] has that
	// checked.
	Claims []byte
}

// TokenKind says which tokens a [Verifier] verifies.
type TokenKind struct {
	// Issuer is [Token.Issuer] of these tokens: an https URL of your own that is not one of the
	// issuers. It keeps subjects of this kind apart from all others, and is not announced.
	Issuer string
	// Prefix is how the tokens begin. No prefix begins with another one. If it is empty, they are
	// all tokens of no other kind; then no issuer may have opaque tokens. A JWT that names one of
	// the issuers always belongs to that.
	Prefix string
	// Verifier verifies the tokens.
	Verifier Verifier
	// Fresh is how long the guard uses a statement without asking again, at most until its Expiry. The
	// default is zero: it asks for each request.
	Fresh time.Duration
	// InsecureNoAudience accepts statements without Audience. Then whoever gets such a token,
	// another server of yours for example, can use it here.
	InsecureNoAudience bool
}

// tokenKind is a TokenKind of one guard.
type tokenKind struct {
	TokenKind
	as *trusted
}

// kindsOf returns the kinds of tokens of a guard, the one without a prefix last.
func (g *Guard) kindsOf(c *Config) []*tokenKind {
	var out []*tokenKind
	for _, kind := range c.TokenKinds {
		as := &trusted{issuer: &issuer{name: kind.Issuer, rules: &tokenRules{leeway: defaultLeeway}},
			accepted: append([]string{g.resource}, c.Audiences...), anywhere: kind.InsecureNoAudience}
		out = append(out, &tokenKind{kind, as})
	}
	slices.SortFunc(out, func(a, b *tokenKind) int { return strings.Compare(b.Prefix, a.Prefix) })
	return out
}

// kindOf returns the kind of a token that is not of one of the issuers, nil for others.
func (g *Guard) kindOf(raw string) *tokenKind {
	for _, kind := range g.kinds {
		if strings.HasPrefix(raw, kind.Prefix) && g.namedIssuer(raw) == nil {
			return kind
		}
	}
	return nil
}

// verifyKind verifies a token of a kind of its own.
func (g *Guard) verifyKind(ctx context.Context, kind *tokenKind, raw string, now time.Time) (verified, error) {
	if !isB64Token(raw) {
		// RFC 6750 section 2.1: what an access token may look like.
		return verified{}, invalid("The access token is malformed.")
	}
	said, err := kind.ask(ctx, raw)
	if err != nil {
		return verified{}, err
	}
	claims, err := kind.claims(&said, raw, g.maxToken)
	if err != nil {
		return verified{}, err
	}
	if err := claims.check(kind.as, now); err != nil {
		return verified{}, err
	}
	found := g.found(judged{claims: claims, issuer: kind.as})
	if kind.Fresh == 0 {
		found.until = time.Time{} // not for the cache
		return found, nil
	}
	return found.before(now.Add(kind.Fresh)), nil
}

// ask calls the verifier. The error is a [challenge] if that says that the token is not valid.
func (k *tokenKind) ask(ctx context.Context, raw string) (said Statement, err error) {
	ctx, cancel := context.WithTimeout(ctx, totalTimeout)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			said, err = Statement{}, k.fault(panicked(p))
		}
	}()
	said, err = k.Verifier.Verify(ctx, raw)
	switch {
	case err == nil:
		return said, nil
	case errors.Is(err, ErrToken) && !errors.Is(err, ErrUnavailable):
		refusal := invalid("The access token is not accepted.")
		refusal.cause = err
		return Statement{}, refusal
	}
	return Statement{}, k.fault(err.Error())
}

// panicked describes a panic. It leaves out values, which may be or contain the token.
func panicked(p any) string {
	if mistake, ok := p.(runtime.Error); ok {
		return "it panicked: " + mistake.Error()
	}
	return "it panicked"
}

// fault is the error for a token that cannot be verified. It wraps nothing: what a verifier wraps
// must not become the answer.
func (k *tokenKind) fault(why string) error {
	return fmt.Errorf("middleware: the verifier of %s: %s", k.Issuer, why)
}

// claims returns a statement as claims, in copies. largest is the maximum size of its Claims.
func (k *tokenKind) claims(said *Statement, raw string, largest int) (jwtClaims, error) {
	if !utf8.ValidString(said.Subject) || !utf8.ValidString(said.ClientID) || !utf8.ValidString(said.ID) {
		return jwtClaims{}, errUnreadable
	}
	var scopes []string
	for _, scope := range said.Scopes {
		if metadata.ValidScope(scope) {
			scopes = append(scopes, scope)
		}
	}
	c := jwtClaims{
		Issuer: k.Issuer, Subject: said.Subject, ClientID: said.ClientID, Audience: slices.Clone(said.Audience),
		Scope: strings.Join(scopes, " "), ID: said.ID,
		Expiry: timestamp{said.Expiry}, NotBefore: timestamp{said.NotBefore}, IssuedAt: timestamp{said.IssuedAt},
		unaddressed: k.InsecureNoAudience && len(said.Audience) == 0,
	}
	return c, k.own(&c, said.Claims, raw, largest)
}

// own adds the claims of a statement that are for [Token.Claims].
func (k *tokenKind) own(c *jwtClaims, object []byte, raw string, largest int) error {
	if len(object) == 0 {
		return nil
	}
	var all members
	if err := strictjson.Unmarshal(object, &all, strictjson.Options{MaxBytes: maxDocument}); err != nil || all == nil {
		return k.fault("its claims are not one JSON object")
	}
	c.Confirmation = all["cnf"]
	if !strings.Contains(unescapedJSON(object), raw) { // no handler gets the token back
		c.keep(string(object), largest)
	}
	return nil
}
