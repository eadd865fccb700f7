package examples

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"gatehouse.example/metadata"
	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// notesServer is a plain net/http server: one guard whose policy has the scopes for every request,
// a further scope for some operations, and the metadata document with the authorization server.
// The bodies are not messages of the protocol, so the policy names no methods or tools, and the
// guard does not read the bodies.
func notesServer(resource, issuer string) (http.Handler, error) {
	guard, err := middleware.New(middleware.Config{
		Resource:             resource,
		AuthorizationServers: []string{issuer},
		Scopes:               []string{"notes:read", "notes:write"},
		Policy: middleware.Policy{
			Scopes:  []string{"notes:read"},
			Implies: map[string][]string{"notes:admin": {"notes:read", "notes:write"}},
		},
	})
	if err != nil {
		return nil, err
	}
	notes := http.NewServeMux()
	notes.Handle("GET /notes", http.HandlerFunc(listNotes))
	notes.Handle("POST /notes", guard.RequireScope("notes:write")(http.HandlerFunc(addNote)))

	mux := http.NewServeMux()
	mux.Handle("/notes", guard.Protect(notes))
	for _, path := range guard.MetadataPaths() {
		mux.Handle(path, guard.Metadata())
	}
	return mux, nil
}

// listNotes asks the token itself for what makes no difference between yes and no.
func listNotes(w http.ResponseWriter, r *http.Request) {
	token, ok := middleware.TokenFrom(r.Context())
	if !ok {
		w.WriteHeader(http.StatusInternalServerError) // not behind Protect
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"owner":    token.Principal(),
		"client":   token.ClientID,
		"editable": token.HasScope("notes:write"), // granted, or implied by what was granted
	})
}

func addNote(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) }

// start serves a handler that needs its own address.
func start(t *testing.T, path string, handler func(resource string) (http.Handler, error)) string {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	resource := "http://" + server.Listener.Addr().String() + path
	h, err := handler(resource)
	if err != nil {
		t.Fatal(err)
	}
	server.Config.Handler = h
	server.Start()
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return resource
}

func call(t *testing.T, method, url, token string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(body)
}

// checkInsufficient expects the refusal of a token that lacks scopes: 403 and one challenge, with
// all scopes that the operation needs and the URL of the metadata.
func checkInsufficient(t *testing.T, res *http.Response, needs string) {
	t.Helper()
	challenges, err := metadata.ParseChallenges(res.Header["Www-Authenticate"])
	if res.StatusCode != http.StatusForbidden || err != nil || len(challenges) != 1 {
		t.Errorf("%s %q, %v, want 403 and one challenge", res.Status, res.Header["Www-Authenticate"], err)
		return
	}
	for name, want := range map[string]string{"error": "insufficient_scope", "scope": needs} {
		if got, _ := challenges[0].Get(name); got != want {
			t.Errorf("%s: %s is %q, want %q", challenges[0], name, got, want)
		}
	}
	if where, _ := challenges[0].Get("resource_metadata"); !strings.HasPrefix(where, "http://127.0.0.1:") {
		t.Errorf("%s: the metadata is at %q", challenges[0], where)
	}
}

func TestPlainHTTP(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	resource := start(t, "/notes", func(resource string) (http.Handler, error) { return notesServer(resource, issuer.URL()) })

	// A client without a token is led to the metadata, and from there to the issuer.
	res, _ := call(t, "GET", resource, "")
	challenges, err := metadata.ParseChallenges(res.Header["Www-Authenticate"])
	if err != nil || len(challenges) != 1 || res.StatusCode != http.StatusUnauthorized {
		t.Fatalf("%s %v, %v", res.Status, res.Header, err)
	}
	where, _ := challenges[0].Get("resource_metadata")
	_, body := call(t, "GET", where, "")
	doc, err := metadata.ParseResource([]byte(body), resource)
	if err != nil || len(doc.AuthorizationServers) != 1 || doc.AuthorizationServers[0] != issuer.URL() {
		t.Fatalf("%s holds %s, %v", where, body, err)
	}
	for _, broken := range issuer.Broken(resource) {
		if res, _ = call(t, "GET", resource, broken.Token); res.StatusCode != http.StatusUnauthorized && res.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %s", broken.Name, res.Status)
		}
	}
}

func TestPlainHTTPScopes(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	resource := start(t, "/notes", func(resource string) (http.Handler, error) { return notesServer(resource, issuer.URL()) })
	listed := func(editable bool) string {
		return fmt.Sprintf(`{"client":"client","editable":%t,"owner":"%s|reader"}`+"\n", editable, issuer.URL())
	}
	for _, test := range []struct {
		method, scope string
		status        int
		body, needs   string
	}{
		{"GET", "notes:read", http.StatusOK, listed(false), ""},
		{"GET", "notes:read notes:write", http.StatusOK, listed(true), ""},
		{"GET", "notes:admin", http.StatusOK, listed(true), ""},
		{"POST", "notes:read notes:write", http.StatusCreated, "", ""},
		{"POST", "notes:admin", http.StatusCreated, "", ""},
		{"GET", "notes:write", http.StatusForbidden, "", "notes:read"},
		{"POST", "notes:read", http.StatusForbidden, "", "notes:read notes:write"},
	} {
		res, body := call(t, test.method, resource, issuer.Mint(middlewaretest.Claims{"aud": resource, "scope": test.scope}))
		if test.needs != "" {
			checkInsufficient(t, res, test.needs)
		} else if res.StatusCode != test.status || body != test.body {
			t.Errorf("%s with %s: %s %s", test.method, test.scope, res.Status, body)
		}
	}
}
