package middlewaretest_test

import (
	"testing"

	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// TestFormsOfTokens checks that a form changes signed tokens, good and broken, and that the default
// comes back.
func TestFormsOfTokens(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	strict := guarded(t, issuer, func(*middleware.Config) {})
	loose := guarded(t, issuer, func(c *middleware.Config) {
		c.Issuers = []middleware.Issuer{{URL: issuer.URL(), Profile: middleware.Keycloak}}
	})
	accepted := func(guard *middleware.Guard, token string) bool {
		_, err := guard.Verify(t.Context(), token)
		return err == nil
	}
	keycloak := middlewaretest.Form{Type: "JWT", Claims: func(c middlewaretest.Claims) middlewaretest.Claims {
		c["typ"], c["azp"] = "Bearer", c["client_id"]
		delete(c, "client_id")
		return c
	}}
	for _, tt := range []struct {
		form middlewaretest.Form
		want *middleware.Guard
	}{{keycloak, loose}, {middlewaretest.Form{Type: "at+jwt"}, strict}} {
		issuer.SetForm(tt.form)
		claims := middlewaretest.Claims{"aud": resource, "x": "y"}
		token := issuer.Mint(claims)
		if accepted(strict, token) != (tt.want == strict) || accepted(loose, token) != (tt.want == loose) || len(claims) != 2 {
			t.Errorf("typ %s: the wrong guard accepts a token, or the claims were changed: %v", tt.form.Type, claims)
		}
		for _, broken := range issuer.Broken(resource) {
			if accepted(tt.want, broken.Token) && broken.Name != "typ: JWT" {
				t.Errorf("typ %s: %s is accepted", tt.form.Type, broken.Name)
			}
		}
	}
	issuer.SetForm(middlewaretest.Form{})
	if accepted(strict, issuer.Mint(middlewaretest.Claims{"aud": resource})) {
		t.Error("a token without a type is accepted")
	}
}
