package examples

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// notesAPI is a handler that is no server of the protocol.
func notesAPI() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /notes/{id}", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.PathValue("id")) })
	mux.HandleFunc("DELETE /notes/{id}", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	return mux
}

func protectAPI(issuer string) (http.Handler, error) {
	guard, err := middleware.New(middleware.Config{
		Resource:             "https://notes.example.com/",
		AuthorizationServers: []string{issuer},
		Policy: middleware.Policy{Routes: map[string][]string{
			"GET /notes/{id}":    {"notes:read"},
			"DELETE /notes/{id}": {"notes:write"},
		}},
	})
	if err != nil {
		return nil, err
	}
	return guard.Protect(notesAPI()), nil
}

// TestRoutesOfAPlainAPI: the example of the page does what the page says.
func TestRoutesOfAPlainAPI(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	handler, err := protectAPI(issuer.URL())
	if err != nil {
		t.Fatal(err)
	}
	token := "Bearer " + issuer.Mint(middlewaretest.Claims{"aud": "https://notes.example.com/", "scope": "notes:read"})
	for request, want := range map[[2]string]int{
		{"GET", "/notes/7"}:        200,
		{"HEAD", "/notes/7"}:       200,
		{"DELETE", "/notes/7"}:     403,
		{"GET", "/other"}:          403,
		{"GET", "/notes/a%2Fb"}:    400,
		{"GET", "/notes/../other"}: 400,
	} {
		r := httptest.NewRequest(request[0], "https://notes.example.com"+request[1], nil)
		r.Header.Set("Authorization", token)
		w := httptest.NewRecorder()
		if handler.ServeHTTP(w, r); w.Code != want {
			t.Errorf("%s: %d, want %d", request, w.Code, want)
		}
	}
}
