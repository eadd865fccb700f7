package upstream

import (
	"cmp"
	"context"
	"crypto/subtle"
	"errors"
	"regexp"
	"slices"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
)

// leeway is how far the clocks of the provider and of this server may differ.
const leeway = time.Minute

// verifier returns what checks the signature, audience and end of one token, and the keys it uses.
func (c *Client) verifier(m metadata, direct bool) (*keySet, *oidc.IDTokenVerifier) {
	set := &keySet{c: c, direct: direct, algorithms: algorithmsOf(m.algorithms())}
	return set, oidc.NewVerifier(c.p.Issuer, set, &oidc.Config{
		ClientID:             c.p.ClientID,
		SupportedSigningAlgs: m.algorithms(),
		// Entra's tokens have the issuer of a tenant, and Google's one of two; see issues.
		SkipIssuerCheck: true,
		Now:             func() time.Time { return c.o.Now().Add(-leeway) },
	})
}

// compactForm is that of a JWS in the compact serialization (RFC 7515 section 7.1), without the
// white space that libraries skip.
var compactForm = regexp.MustCompile(`^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$`)

// compact reports a JWS in the compact form, of a size that is worth a look.
func compact(token string) bool { return len(token) <= maxToken && compactForm.MatchString(token) }

// idToken verifies an ID token that came from the token endpoint together with an access token
// (OpenID Connect Core section 3.1.3.7, and 12.2 for one that came with a refresh).
func (c *Client) idToken(ctx context.Context, m metadata, raw, accessToken string) (claims, error) {
	if !compact(raw) {
		return nil, c.error(ErrInvalid, ReasonToken, "the ID token is no compact JWS of at most %d bytes", maxToken)
	}
	keys, verifier := c.verifier(m, true)
	token, err := verifier.Verify(ctx, raw)
	if err != nil {
		return nil, c.untrusted(ReasonToken, cmp.Or(keys.failed, err))
	}
	var payload payloadOf
	if err := token.Claims(&payload); err != nil {
		return nil, c.untrusted(ReasonToken, err)
	}
	k, err := c.checked(payload.claims, ReasonToken)
	if err != nil {
		return nil, err
	}
	// at_hash binds the access token to the ID token (section 3.1.3.8).
	if token.AccessTokenHash != "" && token.VerifyAccessToken(accessToken) != nil {
		return nil, c.error(ErrInvalid, ReasonToken, "at_hash is not that of the access token")
	}
	return k, nil
}

// payloadOf takes the payload of a token from go-oidc and reads it strictly.
type payloadOf struct{ claims claims }

// UnmarshalJSON reads the claims.
func (p *payloadOf) UnmarshalJSON(data []byte) (err error) {
	p.claims, err = readClaims(data)
	return err
}

// untrusted is the error for a token that go-oidc or the keys refuse.
func (c *Client) untrusted(reason Reason, err error) *Error {
	var own *Error
	var expired *oidc.TokenExpiredError
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, &expired) && reason == ReasonToken:
		return c.error(ErrInvalid, ReasonExpired, "the token ended at %s", expired.Expiry.UTC().Format(time.RFC3339))
	}
	return c.error(ErrInvalid, reason, "%s", shown(err.Error(), 200))
}

// checked checks again, in the strict reading, what every token must have.
func (c *Client) checked(k claims, reason Reason) (claims, error) {
	if issuer := k.text("iss"); !c.p.Issues(issuer) {
		return nil, c.error(ErrInvalid, ReasonIssuer, "a token of the issuer %q came from %q", shown(issuer, 200), c.p.Issuer)
	}
	// A token of one tenant is signed with the name of that tenant in two places, which must agree.
	if c.p.Preset == Entra && reason == ReasonToken && !c.tenantAgrees(k) {
		return nil, c.error(ErrInvalid, ReasonIssuer, "tid %q is not the tenant of the issuer %q", shown(k.text("tid"), 64), shown(k.text("iss"), 200))
	}
	if err := c.audience(k); err != nil {
		return nil, c.error(ErrInvalid, reason, "%s", err)
	}
	return k, c.times(k, reason)
}

func (c *Client) tenantAgrees(k claims) bool {
	_, name, _ := tenant(k.text("iss"))
	return name == lower(k.text("tid"))
}

// audience checks aud and azp (OpenID Connect Core section 3.1.3.7, 3 to 5).
func (c *Client) audience(k claims) error {
	audience, err := k.list("aud")
	switch {
	case err != nil:
		return err
	case !slices.Contains(audience, c.p.ClientID):
		return errors.New("aud does not name this server")
	case len(audience) > 1 && !k.has("azp") && !k.has("events"):
		return errors.New("aud names several and azp none")
	case k.has("azp") && k.text("azp") != c.p.ClientID:
		return errors.New("azp is not this server")
	}
	return nil
}

// times checks exp, iat and nbf.
func (c *Client) times(k claims, reason Reason) error {
	now := c.o.Now()
	var at [3]time.Time
	for i, name := range []string{"exp", "iat", "nbf"} {
		moment, err := k.moment(name)
		if err == nil && moment.IsZero() && name != "nbf" {
			err = errors.New(name + " is missing")
		}
		if err != nil {
			return c.error(ErrInvalid, reason, "%s", err)
		}
		at[i] = moment
	}
	early := ReasonExpired
	if reason == ReasonLogoutToken {
		early = reason
	}
	switch exp, iat, nbf := at[0], at[1], at[2]; {
	case !now.Before(exp.Add(leeway)):
		return c.error(ErrInvalid, early, "exp is over")
	case iat.After(now.Add(leeway)):
		return c.error(ErrInvalid, early, "iat is %s ahead of this server's clock", iat.Sub(now).Round(time.Second))
	case nbf.After(now.Add(leeway)):
		return c.error(ErrInvalid, early, "nbf is %s ahead of this server's clock", nbf.Sub(now).Round(time.Second))
	}
	return nil
}

// ofAttempt checks that an ID token was made for this sign-in.
func (c *Client) ofAttempt(k claims, a Attempt) error {
	if subtle.ConstantTimeCompare([]byte(k.text("nonce")), []byte(a.Nonce)) != 1 {
		return c.error(ErrInvalid, ReasonNonce, "the nonce is not that of this sign-in")
	}
	signedIn, err := k.moment("auth_time")
	if err != nil {
		return c.error(ErrInvalid, ReasonToken, "%s", err)
	}
	switch {
	case a.MaxAge != nil && signedIn.IsZero():
		return c.error(ErrDenied, ReasonAge, "max_age was asked for, and auth_time is missing (OpenID Connect Core section 2)")
	case a.MaxAge != nil && c.o.Now().Sub(signedIn) > *a.MaxAge+leeway:
		return c.error(ErrDenied, ReasonAge, "the sign-in there is older than %s", *a.MaxAge)
	case a.ForceLogin && !signedIn.IsZero() && signedIn.Before(a.Begun.Add(-leeway)):
		return c.error(ErrDenied, ReasonAge, "the sign-in there is older than this one, with prompt=login")
	}
	return nil
}
