package authz_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"gatehouse.example/authz"
)

// TestAssertionsNameTheIssuer: another server of the same client can announce this server's
// token endpoint as its own. An assertion that the client signs for it names this endpoint,
// and is valid here only if the operator configured that (CVE-2025-27370, CVE-2025-27371).
func TestAssertionsNameTheIssuer(t *testing.T) {
	t.Parallel()
	const other = "https://other.example.com"
	for _, setting := range []authz.AssertionAudience{"", authz.AudienceIssuer, authz.AudienceIssuerOrEndpoint} {
		h := newHarness(t, setup{issuer: secureIssuer + "/tenant", config: func(c *authz.Config) { c.AssertionAudience = setting }})
		c, also := signing(h), setting == authz.AudienceIssuerOrEndpoint
		token, revoke := h.issuer+"/token", h.issuer+"/revoke"
		for _, tt := range []struct {
			name              string
			aud               any
			atToken, atRevoke bool
		}{
			{"the issuer", h.issuer, true, true},
			{"the issuer in a list", []string{h.issuer}, true, true},
			{"the token endpoint", token, also, also},
			{"the token endpoint in a list", []string{token}, also, also},
			{"the revocation endpoint", revoke, false, also},
			{"the issuer and the endpoint", []string{h.issuer, token}, false, false},
			{"the issuer twice", []string{h.issuer, h.issuer}, false, false},
			{"the issuer and another", []string{h.issuer, other}, false, false},
			{"another and the endpoint", []string{other, token}, false, false},
			{"another", other, false, false},
			{"a slash", h.issuer + "/", false, false},
			{"the authorization endpoint", h.issuer + "/authorize", false, false},
			{"the introspection endpoint", h.issuer + "/introspect", false, false},
			{"the origin", secureIssuer, false, false},
			{"another tenant", secureIssuer + "/other", false, false},
			{"nobody", nil, false, false},
			{"a list of nobody", []string{}, false, false},
			{"a list in a list", []any{[]string{h.issuer}}, false, false},
		} {
			with := func(path string, pairs ...string) int {
				h.clock.advance(time.Minute) // wrong ones are slowed down
				values := asserted(form(pairs...), h.assertion(clientKey(), c.ID, "", map[string]any{"aud": tt.aud}))
				return h.send(h.newRequest(http.MethodPost, h.issuer+path, values)).status
			}
			// The error of an authenticated client is about the token.
			for path, got := range map[string]struct {
				status int
				want   bool
			}{
				"/token":  {with("/token", "grant_type", "refresh_token", "refresh_token", "none"), tt.atToken},
				"/revoke": {with("/revoke", "token", "none"), tt.atRevoke},
			} {
				if accepted := got.status != http.StatusUnauthorized; accepted != got.want || got.status >= 500 {
					t.Errorf("%q: %s at %s: status %d, want accepted: %v", setting, tt.name, path, got.status, got.want)
				}
			}
		}
	}
	if _, err := authz.New(t.Context(), func() authz.Config {
		cfg := newHarness(t, setup{}).cfg
		cfg.AssertionAudience = "anybody"
		return cfg
	}()); err == nil {
		t.Error("an unknown setting is taken")
	}
}

// TestTimesOfAssertionsAreNumbers: a NumericDate is a JSON number (RFC 7519 section 2).
// Values that other implementations do not accept are refused.
func TestTimesOfAssertionsAreNumbers(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	c, soon := signing(h), h.clock.Now().Add(time.Minute).Unix()
	for _, tt := range []struct {
		name, claim string
		value       any
		accepted    bool
	}{
		{"a number", "exp", soon, true},
		{"a fraction", "exp", float64(soon) + .5, true},
		{"a string", "exp", fmt.Sprint(soon), false},
		{"a list", "exp", []int64{soon}, false},
		{"true", "exp", true, false},
		{"too large", "exp", 1e300, false},
		{"a string", "iat", fmt.Sprint(soon - 60), false},
		{"a string", "nbf", fmt.Sprint(soon - 60), false},
	} {
		values := asserted(form("token", "none"), h.assertion(clientKey(), c.ID, h.issuer, map[string]any{tt.claim: tt.value}))
		got := h.send(h.newRequest(http.MethodPost, h.issuer+"/revoke", values)).status
		if (got == http.StatusOK) != tt.accepted || !tt.accepted && got != http.StatusUnauthorized {
			t.Errorf("%s is %s: status %d, want accepted: %v", tt.claim, tt.name, got, tt.accepted)
		}
	}
}
