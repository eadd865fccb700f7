package middleware

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"gatehouse.example/internal/fair"
	"gatehouse.example/internal/fingerprint"
)

var (
	// ErrToken means that an access token is not valid, or not for this resource: over HTTP,
	// 401.
	ErrToken = errors.New("middleware: the access token is not accepted")
	// ErrUnavailable means that an access token cannot be verified at the moment: over HTTP,
	// 503. On 401 a client would discard a token that may be good.
	ErrUnavailable = errors.New("middleware: the access token cannot be checked at the moment")
)

// Verify verifies an access token in the same way as [Guard.Protect], for other transports and
// for guards of other libraries. It neither applies the policy nor calls [Config.Observe].
// It refuses a token that is bound to a key or a certificate: only a request shows that its sender
// has them.
//
// The error matches [ErrToken] or [ErrUnavailable] with errors.Is. Its text has details, and is
// for the log.
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

// verdict is an error that matches ErrToken or ErrUnavailable.
type verdict struct{ kind, cause error }

// Error implements error.
func (v *verdict) Error() string { return v.cause.Error() }

// Unwrap returns the kind and the cause.
func (v *verdict) Unwrap() []error { return []error{v.kind, v.cause} }

// isRefusal reports whether an error means that the token is not valid, and not that it could
// not be verified.
func isRefusal(err error) bool {
	var c challenge
	return errors.As(err, &c)
}

// verified is a valid token, and the time in which it is valid.
type verified struct {
	token  *Token
	begins time.Time
	until  time.Time

	issuer *issuer
	keys   *keySet // of the issuer at the time; nil for a token without a signature
}

// holds reports whether a token is still valid without verifying it again. It is false when the
// keys of the issuer changed or are due for renewal: the cache must not extend the use of a key
// that the issuer withdrew.
func (v *verified) holds(now time.Time) bool {
	if now.After(v.until) || v.begins.After(now.Add(v.issuer.rules.leeway)) {
		return false
	}
	return v.keys == nil || v.issuer.current.Load() == v.keys && now.Before(v.keys.renew)
}

// verify returns the contents of a valid bearer token.
func (g *Guard) verify(ctx context.Context, raw string) (*Token, error) {
	token, err := g.verifyAny(ctx, nil, raw)
	if err == nil && token.bound.any() {
		return nil, invalid("The access token is bound to a key or a certificate, and there is no request that could show it.")
	}
	return token, err
}

// verifyAny returns the contents of a valid token, from the cache if they are there. Whether its
// sender has what the token is bound to is for [Guard.possesses] to check. The request that it came
// from may be nil. The error is a [challenge] for an invalid token; any other error means that it
// cannot be verified.
func (g *Guard) verifyAny(ctx context.Context, from *http.Request, raw string) (*Token, error) {
	if len(raw) > g.maxToken {
		return nil, invalid("The access token is too long.")
	}
	id, now := fingerprint.Of(raw), g.now()
	if v := g.verified.get(id, now); v != nil && v.holds(now) {
		return v.token, nil
	}
	if from != nil {
		ctx = fair.WithRequester(ctx, g.proxies.client(from))
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

// examine verifies a token that is not in the cache.
func (g *Guard) examine(ctx context.Context, raw string, now time.Time) (verified, error) {
	if kind := g.kindOf(raw); kind != nil {
		return g.verifyKind(ctx, kind, raw, now)
	}
	if g.opaque != nil && g.isOpaque(raw) {
		return g.lookUp(ctx, raw)
	}
	t, err := g.verifyJWT(ctx, raw, now)
	if err != nil {
		return verified{}, err
	}
	if t.issuer.introspector == nil {
		return g.found(t), nil
	}
	answer, fresh, err := t.issuer.introspector.ask(ctx, raw)
	if err == nil {
		err = answer.confirms(&t.claims)
	}
	if err != nil {
		return verified{}, err
	}
	answer.narrow(&t.claims)
	return g.found(t).before(fresh), nil
}

// isOpaque reports whether a token is to be looked up at the issuer of opaque tokens. It is
// false for a JWT that names another configured issuer.
func (g *Guard) isOpaque(raw string) bool {
	from := g.namedIssuer(raw)
	return from == nil || from == g.opaque
}

// namedIssuer returns the issuer that a JWT names, nil for other tokens and other issuers.
func (g *Guard) namedIssuer(raw string) *trusted {
	_, rest, _ := strings.Cut(raw, ".")
	body, _, _ := strings.Cut(rest, ".")
	payload, err := plaintext(body)
	if err != nil {
		return nil
	}
	_, from, _ := g.readClaims(payload) // a token that its issuer's rules refuse is still that issuer's
	return from
}

// lookUp verifies an opaque token by introspection.
func (g *Guard) lookUp(ctx context.Context, raw string) (verified, error) {
	if !isB64Token(raw) || !g.opaque.rules.profile.looksLike(raw) {
		// RFC 6750 section 2.1: what an access token may look like.
		return verified{}, invalid("The access token is malformed.")
	}
	answer, fresh, err := g.opaque.introspector.ask(ctx, raw)
	if errors.Is(err, errUnsupported) {
		return verified{}, invalid("The access token is not one that its issuer looks up.")
	}
	if err != nil {
		return verified{}, err
	}
	t := judged{claims: answer.jwtClaims, issuer: g.opaque}
	t.claims.Issuer = g.opaque.name
	return g.found(t).before(fresh), nil
}

// judged holds the claims of a valid token, and how they were verified.
type judged struct {
	claims jwtClaims
	issuer *trusted
	keys   *keySet // with the key of the token; nil for a token without a signature
}

// verifyJWT verifies a token by its signature and claims. It checks everything that is cheap
// before it looks up the key, so that only a token with matching claims costs a verification of
// a signature or a fetch.
func (g *Guard) verifyJWT(ctx context.Context, raw string, now time.Time) (judged, error) {
	var b1, b2 buffer
	token, signature, err := open(raw, &b1)
	if err != nil {
		return judged{}, err
	}
	claims, from, err := g.readClaims(token.payload)
	if err != nil {
		return judged{}, err
	}
	if from == nil {
		// RFC 9068 section 4: the issuer MUST exactly match.
		return judged{}, invalid("The access token comes from another issuer.")
	}
	id, err := from.header(token.head)
	if err != nil {
		return judged{}, err
	}
	if err := claims.check(from, now); err != nil {
		return judged{}, err
	}
	if err := g.admits(claims.bound); err != nil {
		return judged{}, err
	}
	if claims.IssuedAt.IsZero() {
		return judged{}, invalid("The access token has no time of issue.")
	}
	signed := func(key *verifyKey) bool { return key.signed(append(b2[:0], token.input...), signature) }
	key, keys, err := from.key(ctx, signedBy{id: id, issued: claims.IssuedAt.Time, check: signed})
	if err != nil {
		return judged{}, err
	}
	if id.id != "" && !signed(key) {
		return judged{}, invalid("The signature of the access token is wrong.")
	}
	from.headers.add(token.head, id)
	claims.keep(token.payload, g.maxToken)
	return judged{claims, from, keys}, nil
}

// found returns the cache entry for a valid token.
func (g *Guard) found(t judged) verified {
	token := t.claims.token()
	token.effective = g.policy.effective(token.Scopes)
	token.leeway, token.ruled = t.issuer.rules.leeway, t.issuer.rules.mapping.ruled
	return verified{token: token, begins: t.claims.begins(), until: token.Expiry.Add(token.leeway), issuer: t.issuer.issuer, keys: t.keys}
}

// before returns v with an end that is not after a time.
func (v verified) before(end time.Time) verified {
	if end.Before(v.until) {
		v.until = end
	}
	return v
}
