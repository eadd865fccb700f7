package examples

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"gatehouse.example/metadata"
	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// notesServer is a plain net/http server: one guard, a scope for each operation, and the
// metadata document that leads clients to the authorization server.
func notesServer(resource, issuer string) (http.Handler, error) {
	guard, err := middleware.New(middleware.Config{
		Resource:             resource,
		AuthorizationServers: []string{issuer},
		Scopes:               []string{"notes:read", "notes:write"},
	})
	if err != nil {
		return nil, err
	}
	notes := http.NewServeMux()
	notes.Handle("GET /notes", guard.RequireScope("notes:read")(http.HandlerFunc(listNotes)))
	notes.Handle("POST /notes", guard.RequireScope("notes:write")(http.HandlerFunc(addNote)))

	mux := http.NewServeMux()
	mux.Handle("/notes", guard.Protect(notes))
	for _, path := range guard.MetadataPaths() {
		mux.Handle(path, guard.Metadata())
	}
	return mux, nil
}

func listNotes(w http.ResponseWriter, r *http.Request) {
	token, ok := middleware.TokenFrom(r.Context())
	if !ok {
		w.WriteHeader(http.StatusInternalServerError) // not behind Protect
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]string{"owner": token.Principal(), "client": token.ClientID})
}

func addNote(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) }

// start serves a handler that must know its own address.
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
	t.Cleanup(server.Close)
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

	token := issuer.Mint(middlewaretest.Claims{"aud": resource, "scope": "notes:read"})
	if res, body = call(t, "GET", resource, token); res.StatusCode != http.StatusOK || !strings.Contains(body, issuer.URL()+"|reader") {
		t.Errorf("GET: %s %s", res.Status, body)
	}
	res, _ = call(t, "POST", resource, token)
	if challenge := res.Header.Get("WWW-Authenticate"); res.StatusCode != http.StatusForbidden || !strings.Contains(challenge, `error="insufficient_scope"`) || !strings.Contains(challenge, `scope="notes:write"`) {
		t.Errorf("POST: %s %s", res.Status, challenge)
	}
	token = issuer.Mint(middlewaretest.Claims{"aud": resource, "scope": "notes:read notes:write"})
	if res, _ = call(t, "POST", resource, token); res.StatusCode != http.StatusCreated {
		t.Errorf("POST: %s", res.Status)
	}
	for _, broken := range issuer.Broken(resource) {
		if res, _ = call(t, "GET", resource, broken.Token); res.StatusCode != http.StatusUnauthorized && res.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %s", broken.Name, res.Status)
		}
	}
}
