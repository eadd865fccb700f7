package middlewaretest_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// Attack a handler, and then call it with a token.
func ExampleNewIssuer() {
	const resource = "https://notes.example.com/mcp"
	test := func(t *testing.T) {
		issuer := middlewaretest.NewIssuer(t)
		guard, err := middleware.New(middleware.Config{Resource: resource, AuthorizationServers: []string{issuer.URL()}})
		if err != nil {
			t.Fatal(err)
		}
		handler := guard.Protect(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		middlewaretest.Attack(t, issuer, resource, handler)

		r := httptest.NewRequest("GET", resource, nil)
		r.Header.Set("Authorization", "Bearer "+issuer.Mint(middlewaretest.Claims{"aud": resource, "sub": "reader"}))
		w := httptest.NewRecorder()
		if handler.ServeHTTP(w, r); w.Code != http.StatusOK {
			t.Errorf("a good token: %d", w.Code)
		}
	}
	_ = test // a test is a function of its own: func TestNotes(t *testing.T)
}
