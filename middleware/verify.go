package middleware

import (
	"context"
	"errors"
	"strings"
	"time"
)

var (
	// ErrToken says that an access token is not good, or not for this resource: over HTTP,
	// 401.
	ErrToken = errors.New("middleware: the access token is not accepted")
	// ErrUnavailable says that nobody can know at the moment whether an access token is
	// good: over HTTP, 503. A client that is told otherwise throws away a good token.
	ErrUnavailable = errors.New("middleware: the access token cannot be checked at the moment")
)

// Verify judges an access token in the same way as [Guard.Protect], for other transports
// and for guards of other libraries. It neither looks at a policy nor calls
// [Config.Observe].
//
// The error is [ErrToken] or [ErrUnavailable], as errors.Is tells. Its text says more, and
// is for the log.
func (g *Guard) Verify(ctx context.Context, token string) (*Token, error) {
	verified, err := g.verify(ctx, token)
	if err == nil {
		return verified, nil
	}
	if isRefusal(err) {
		return nil, &verdict{ErrToken, err}
	}
	return nil, &verdict{ErrUnavailable, err}
}

// verdict is an error of a kind.
type verdict struct{ kind, cause error }

// Error implements error.
func (v *verdict) Error() string { return v.cause.Error() }

// Unwrap returns the kind and the cause.
func (v *verdict) Unwrap() []error { return []error{v.kind, v.cause} }

// isRefusal tells a token that is not good from trouble on the way to know.
func isRefusal(err error) bool {
	var c challenge
	return errors.As(err, &c)
}

// verified is a token that was found good, and for how long that holds.
type verified struct {
	token  *Token
	begins time.Time
	until  time.Time

	issuer *issuer
	keys   *keySet // that the issuer had at the time; nil for a token without a signature
}

// holds reports whether a token is as good as it was. Where the keys changed or are due
// for renewal, it has to be found out again: a key that the issuer took back must not
// outlive that in a cache.
func (v *verified) holds(now time.Time) bool {
	if now.After(v.until) || v.begins.After(now.Add(leeway)) {
		return false
	}
	return v.keys == nil || v.issuer.current.Load() == v.keys && now.Before(v.keys.renew)
}

// verify returns what a token says when all of it is right. Its errors are a
// [challenge], or tell that it cannot be known.
func (g *Guard) verify(ctx context.Context, raw string) (*Token, error) {
	if len(raw) > maxToken {
		return nil, invalid("The access token is too long.")
	}
	id, now := digestOf(raw), g.now()
	if v := g.verified.get(id, now); v != nil && v.holds(now) {
		return v.token, nil
	}
	v, err := g.examine(ctx, raw, now)
	if err != nil {
		return nil, err
	}
	if v.holds(now) {
		g.verified.put(id, v, now, v.until)
	}
	return v.token, nil
}

// examine judges a token that is not remembered.
func (g *Guard) examine(ctx context.Context, raw string, now time.Time) (verified, error) {
	if g.opaque != nil && g.isOpaque(raw) {
		return g.lookUp(ctx, raw)
	}
	t, err := g.verifyJWT(ctx, raw, now)
	if err != nil {
		return verified{}, err
	}
	if t.issuer.asks == nil {
		return g.found(t), nil
	}
	answer, fresh, err := t.issuer.asks.ask(ctx, raw)
	if err == nil {
		err = answer.confirms(&t.claims)
	}
	if err != nil {
		return verified{}, err
	}
	answer.narrow(&t.claims)
	return g.found(t).before(fresh), nil
}

// isOpaque reports whether the answer of the issuer with opaque tokens decides about one:
// unless it says to be a JWT of another issuer, whose rules then hold.
func (g *Guard) isOpaque(raw string) bool {
	_, rest, _ := strings.Cut(raw, ".")
	body, _, _ := strings.Cut(rest, ".")
	payload, err := plaintext(body)
	if err != nil {
		return true
	}
	claims, err := readClaims(payload)
	from := g.issuers[claims.Issuer]
	return err != nil || from == nil || from == g.opaque
}

// lookUp believes what the issuer says about a token.
func (g *Guard) lookUp(ctx context.Context, raw string) (verified, error) {
	if !isB64Token(raw) {
		// RFC 6750 section 2.1: what an access token may look like.
		return verified{}, invalid("The access token is malformed.")
	}
	answer, fresh, err := g.opaque.asks.ask(ctx, raw)
	if err != nil {
		return verified{}, err
	}
	t := judged{claims: answer.jwtClaims, issuer: g.opaque}
	t.claims.Issuer = g.opaque.name
	return g.found(t).before(fresh), nil
}

// judged is a token that was found good, and by what.
type judged struct {
	claims jwtClaims
	issuer *issuer
	keys   *keySet // that the key came from; nil for a token without a signature
}

// verifyJWT judges a token by itself. Everything that is cheap is checked before the key
// is looked up, so that only a token which claims to be ours costs a signature or a fetch.
func (g *Guard) verifyJWT(ctx context.Context, raw string, now time.Time) (judged, error) {
	var b1, b2 buffer
	token, signature, err := g.open(raw, &b1)
	if err != nil {
		return judged{}, err
	}
	claims, err := readClaims(token.payload)
	if err != nil {
		return judged{}, err
	}
	from, ok := g.issuers[claims.Issuer]
	if !ok {
		// RFC 9068 section 4: the issuer MUST exactly match.
		return judged{}, invalid("The access token comes from another issuer.")
	}
	if err := claims.check(g.accepted, now); err != nil {
		return judged{}, err
	}
	if claims.IssuedAt.IsZero() {
		return judged{}, invalid("The access token has no time of issue.")
	}
	signed := func(key *verifyKey) bool { return key.signed(append(b2[:0], token.input...), signature) }
	key, keys, err := from.key(ctx, signedBy{id: token.key, issued: claims.IssuedAt.Time, check: signed})
	if err != nil {
		return judged{}, err
	}
	if token.key.id != "" && !signed(key) {
		return judged{}, invalid("The signature of the access token is wrong.")
	}
	g.headers.add(token.head, token.key)
	return judged{claims, from, keys}, nil
}

// found is what is remembered about a token that is good.
func (g *Guard) found(t judged) verified {
	token := t.claims.token()
	token.effective = g.policy.effective(token.Scopes)
	return verified{token: token, begins: t.claims.begins(), until: token.Expiry.Add(leeway), issuer: t.issuer, keys: t.keys}
}

// before shortens how long a token is remembered.
func (v verified) before(end time.Time) verified {
	if end.Before(v.until) {
		v.until = end
	}
	return v
}
