package examples

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// boundConfig is a guard's configuration for bound tokens.
func boundConfig(issuer string) middleware.Config {
	return middleware.Config{
		Resource: "https://notes.example.com/mcp", AuthorizationServers: []string{issuer},
		DPoP: middleware.DPoP{
			Use:          middleware.DPoPAccepted, // or DPoPRequired
			RequireNonce: true,
		},
		ClientCertificates: middleware.ClientCertificates{TLS: true},
	}
}

// TestBoundTokensOfThePage is a client that learns the nonce from the first refusal.
func TestBoundTokensOfThePage(t *testing.T) {
	issuer, key := middlewaretest.NewIssuer(t), middlewaretest.NewProofKey(t, jose.ES256)
	guard, err := middleware.New(boundConfig(issuer.URL()))
	if err != nil {
		t.Fatal(err)
	}
	const resource = "https://notes.example.com/mcp"
	handler := guard.Protect(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, _ := middleware.TokenFrom(r.Context())
		fmt.Fprint(w, token.KeyThumbprint())
	}))
	token := issuer.Mint(middlewaretest.Claims{"aud": resource, "cnf": key.Confirmation()})
	send := func(claims middlewaretest.Claims) *httptest.ResponseRecorder {
		w, r := httptest.NewRecorder(), httptest.NewRequest("POST", resource, nil)
		key.Send(r, resource, token, claims)
		handler.ServeHTTP(w, r)
		return w
	}
	first := send(nil)
	second := send(middlewaretest.Claims{"nonce": first.Header().Get("DPoP-Nonce")})
	if first.Code != http.StatusUnauthorized || second.Code != http.StatusOK || second.Body.String() != key.Thumbprint() {
		t.Errorf("%d, then %d %s", first.Code, second.Code, second.Body)
	}
}
