package examples

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/gorilla/mux"

	"gatehouse.example/metadata"
	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// notesRouter is a server of gorilla/mux. Protect is a middleware of that router without an
// adapter: it is on the subrouter of the resource, and RequireScope on each route.
func notesRouter(resource, issuer string) (http.Handler, error) {
	guard, err := middleware.New(middleware.Config{
		Resource:             resource,
		AuthorizationServers: []string{issuer},
		Scopes:               []string{"notes:read", "notes:write"},
	})
	if err != nil {
		return nil, err
	}
	router := mux.NewRouter()
	for _, path := range guard.MetadataPaths() {
		router.Handle(path, guard.Metadata())
	}
	notes := router.PathPrefix("/notes").Subrouter()
	notes.Use(guard.Protect)
	reading, writing := guard.RequireScope("notes:read"), guard.RequireScope("notes:write")
	notes.Handle("", reading(http.HandlerFunc(listNotes))).Methods(http.MethodGet)
	notes.Handle("", writing(http.HandlerFunc(addNote))).Methods(http.MethodPost)
	notes.Handle("/{id:[0-9]+}", reading(http.HandlerFunc(showNote))).Methods(http.MethodGet)
	// The router calls its middleware only for requests that match a route. This route matches all
	// others, so that Protect answers preflights, and a client without a token cannot learn which
	// routes exist.
	notes.PathPrefix("").HandlerFunc(http.NotFound)
	return router, nil
}

func showNote(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]string{"note": mux.Vars(r)["id"]})
}

func TestGorillaMux(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	resource := start(t, "/notes", func(resource string) (http.Handler, error) { return notesRouter(resource, issuer.URL()) })
	mint := func(scope string) string {
		return issuer.Mint(middlewaretest.Claims{"aud": resource, "scope": scope})
	}
	tests := []struct {
		method, path, scope string
		status              int
		needs               string // what the challenge names
	}{
		{"GET", "", "notes:read", http.StatusOK, ""},
		{"GET", "/7", "notes:read", http.StatusOK, ""},
		{"POST", "", "notes:write", http.StatusCreated, ""},
		{"GET", "", "notes:write", http.StatusForbidden, "notes:read"},
		{"GET", "/7", "notes:write", http.StatusForbidden, "notes:read"},
		{"POST", "", "notes:read", http.StatusForbidden, "notes:write"},
		{"GET", "/x", "notes:read", http.StatusNotFound, ""},
		{"DELETE", "", "notes:read notes:write", http.StatusNotFound, ""},
	}
	for _, test := range tests {
		res, body := call(t, test.method, resource+test.path, mint(test.scope))
		if res.StatusCode != test.status {
			t.Errorf("%s %s with %s: %s %s", test.method, test.path, test.scope, res.Status, body)
		}
		if test.needs != "" {
			checkInsufficient(t, res, test.needs)
		}
	}
	for _, path := range []string{"", "/7", "/x"} {
		for _, method := range []string{"GET", "POST", "DELETE"} {
			if res, _ := call(t, method, resource+path, ""); res.StatusCode != http.StatusUnauthorized || res.Header.Get("WWW-Authenticate") == "" {
				t.Errorf("%s %s without a token: %s %v", method, path, res.Status, res.Header)
			}
		}
		res, _ := call(t, http.MethodOptions, resource+path, "")
		if res.StatusCode != http.StatusNoContent || res.Header.Get("Access-Control-Allow-Headers") == "" {
			t.Errorf("preflight of %s: %s %v", path, res.Status, res.Header)
		}
	}
	if _, body := call(t, "GET", resource+"/7", mint("notes:read")); body != "{\"note\":\"7\"}\n" {
		t.Errorf("the route variable did not arrive: %s", body)
	}
	where, err := metadata.ResourceMetadataURL(resource)
	if err != nil {
		t.Fatal(err)
	}
	if res, _ := call(t, "GET", where, ""); res.StatusCode != http.StatusOK {
		t.Errorf("%s: %s", where, res.Status)
	}
}
