package middleware_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// The challenge for an invalid token names the same scopes as the one without a token, for every
// fault of the token and every configuration of scopes, so that a client that starts anew asks
// for all of them at once.
func TestChallengeOfABadTokenNamesScopes(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	for name, tt := range map[string]struct {
		change func(*middleware.Config)
		want   string
	}{
		"those of the resource":  {func(*middleware.Config) {}, "notes:read notes:write"},
		"those of the challenge": {func(c *middleware.Config) { c.ChallengeScopes = []string{"notes:read"} }, "notes:read"},
		"none":                   {func(c *middleware.Config) { c.ChallengeScopes = []string{} }, ""},
		"no token needed":        {func(c *middleware.Config) { c.Optional = true }, "notes:read notes:write"},
		"of a policy":            {func(c *middleware.Config) { c.Policy = notesPolicy() }, "notes:read notes:write"},
	} {
		guard := newGuard(t, issuer, tt.change)
		for _, broken := range issuer.Broken(resource) {
			var h inner
			res := serve(guard.Protect(&h), withToken(broken.Token))
			if res.StatusCode == http.StatusBadRequest {
				continue // that is no token
			}
			challenge := refused(t, guard, withToken(broken.Token), http.StatusUnauthorized)
			code, _ := challenge.Get("error")
			if scope, _ := challenge.Get("scope"); code != "invalid_token" || scope != tt.want {
				t.Errorf("%s: %s: %s names %q, want %q", name, broken.Name, code, scope, tt.want)
			}
		}
		without, _ := refused(t, newGuard(t, issuer, tt.change, func(c *middleware.Config) { c.Optional = false }), newRequest("POST", resource), http.StatusUnauthorized).Get("scope")
		if without != tt.want {
			t.Errorf("%s: without a token %q, want %q", name, without, tt.want)
		}
	}
}

// So does the challenge for a token that expired a moment ago or was revoked, also when only
// introspection reveals it.
func TestChallengeOfATokenThatEnded(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer, introspects(issuer, opaque))
	revoked := issuer.MintOpaque(claims{"aud": resource})
	issuer.Revoke(revoked)
	signed := newGuard(t, issuer)
	for name, challenge := range map[string]string{
		"revoked": refused(t, guard, withToken(revoked), 401).String(),
		"expired": refused(t, signed, withToken(issuer.Mint(claims{"aud": resource, "exp": time.Now().Add(-10 * time.Minute).Unix()})), 401).String(),
		"unknown": refused(t, guard, withToken("an-opaque-token"), 401).String(),
	} {
		if !strings.Contains(challenge, `scope="notes:read notes:write"`) || !strings.Contains(challenge, `error="invalid_token"`) {
			t.Errorf("%s: %s", name, challenge)
		}
	}
}

// RequireScope names its scopes also to a request without a token.
func TestChallengeOfRequireScope(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer, func(c *middleware.Config) { c.Optional = true })
	res := serve(guard.Protect(guard.RequireScope("notes:admin")(&inner{})), newRequest("POST", resource))
	if got := res.Header.Get("WWW-Authenticate"); res.StatusCode != 401 || !strings.Contains(got, `scope="notes:admin"`) || strings.Contains(got, "error=") {
		t.Errorf("%s: %s", res.Status, got)
	}
}
