package examples

import (
	"crypto/rand"
	"errors"
	"expvar"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// The examples in this file are the snippets of docs/middleware.md.

func protect(mux *http.ServeMux, handler http.Handler) error {
	guard, err := middleware.New(middleware.Config{
		Resource:             "https://notes.example.com/mcp",
		AuthorizationServers: []string{"https://auth.example.com"},
		Scopes:               []string{"notes:read", "notes:write"},
		Policy: middleware.Policy{Tools: map[string][]string{
			"list_notes": {"notes:read"},
			"add_note":   {"notes:write"},
		}},
	})
	if err != nil {
		return err
	}
	mux.Handle("/mcp", guard.Protect(handler))
	for _, path := range guard.MetadataPaths() {
		mux.Handle(path, guard.Metadata())
	}
	return nil
}

func Example_tenLines() {
	mux := http.NewServeMux()
	if err := protect(mux, http.NotFoundHandler()); err != nil {
		fmt.Println(err)
	}
	for _, path := range []string{"/mcp", "/.well-known/oauth-protected-resource/mcp"} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest("GET", "https://notes.example.com"+path, nil))
		fmt.Println(w.Code, w.Header().Get("WWW-Authenticate"))
	}
	// Output:
	// 401 Bearer scope="notes:read notes:write", resource_metadata="https://notes.example.com/.well-known/oauth-protected-resource/mcp"
	// 200
}

// config is a guard's configuration with every option that the page describes.
func config(secret, otherSecret string, sessions *middleware.Handles) middleware.Config {
	return middleware.Config{
		Resource: "https://notes.example.com/mcp",

		AuthorizationServers: []string{"https://auth.example.com", "https://login.example.org"},
		Audiences:            []string{"api://notes"},
		Introspection: map[string]middleware.Introspection{
			"https://auth.example.com":  {ClientID: "notes", ClientSecret: secret},
			"https://login.example.org": {ClientID: "notes", ClientSecret: otherSecret, Opaque: true},
		},

		Scopes: []string{"notes:read", "notes:write"},
		Policy: middleware.Policy{
			Methods: map[string][]string{"completion/complete": {"notes:read"}},
			Tools: map[string][]string{
				"whoami":   {}, // any token
				"list_*":   {"notes:read"},
				"add_note": {"notes:write"},
				"*":        {"notes:admin"}, // without this line, no other tool could be called
			},
			Resources: map[string][]string{
				"notes://drafts/*": {"notes:read", "notes:write"}, // both of them
				"notes://*":        {"notes:read"},
			},
			Implies: map[string][]string{"notes:admin": {"notes:write"}, "notes:write": {"notes:read"}},
		},

		Sessions:   sessions,
		EndStreams: true,

		AllowedOrigins: []string{"https://inspector.example.org"},
		TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
	}
}

// entraTenants are the tenants whose people may come in.
var entraTenants = []string{"3b1f0c52-7d0e-4a6b-9a57-1c6f0e2d8a44"}

// issuers are the providers that the page describes.
func issuers() middleware.Config {
	return middleware.Config{
		Resource: "https://notes.example.com/mcp",

		AuthorizationServers: []string{"https://login.example.com/realms/staff"},
		Issuers: []middleware.Issuer{
			{URL: "https://login.example.com/realms/staff", Profile: middleware.Keycloak},
			{URL: "https://example.eu.auth0.com/", Profile: middleware.Auth0, Audiences: []string{"api://notes"}},
			{URL: "https://login.microsoftonline.com/{tenantid}/v2.0", Profile: middleware.Entra, Tenants: entraTenants},
		},
	}
}

func Example_issuers() {
	_, err := middleware.New(issuers())
	fmt.Println(err)
	// Output: <nil>
}

func Example_config() {
	_, err := middleware.New(config("one secret", "another", nil))
	fmt.Println(err)
	// Output: <nil>
}

// TestPagePolicy: the policy of the page has the effects that the page describes.
func TestPagePolicy(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	c := config("", "", nil)
	c.AuthorizationServers, c.Introspection = []string{issuer.URL()}, nil
	guard, err := middleware.New(c)
	if err != nil {
		t.Fatal(err)
	}
	handler := guard.Protect(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	tool := func(name string) string { return `"tools/call","params":{"name":"` + name + `"}` }
	read := func(uri string) string { return `"resources/read","params":{"uri":"` + uri + `"}` }
	for _, test := range []struct{ scope, message, needs string }{
		{"", tool("whoami"), ""},
		{"", `"ping"`, ""},
		{"", `"prompts/get","params":{"name":"greet"}`, ""},
		{"", tool("list_notes"), "notes:read"},
		{"notes:read", tool("list_notes"), ""},
		{"notes:read", tool("add_note"), "notes:write"},
		{"notes:write", tool("add_note"), ""},
		{"notes:write", tool("list_notes"), ""},
		{"notes:write", tool("drop_notes"), "notes:admin"},
		{"notes:admin", tool("drop_notes"), ""},
		{"notes:admin", tool("list_notes"), ""},
		{"notes:read", read("notes://milk"), ""},
		{"notes:read", read("notes://drafts/milk"), "notes:read notes:write"},
		{"notes:write", read("notes://drafts/milk"), ""},
		{"", `"completion/complete","params":{"ref":{"type":"ref/prompt","name":"greet"}}`, "notes:read"},
	} {
		r := httptest.NewRequest("POST", c.Resource, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":`+test.message+`}`))
		protocolHeader(r, issuer.Mint(middlewaretest.Claims{"aud": "api://notes", "scope": test.scope}))
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		want := http.StatusOK
		if test.needs != "" {
			want = http.StatusForbidden
		}
		if header := w.Header().Get("WWW-Authenticate"); w.Code != want || test.needs != "" && !strings.Contains(header, `scope="`+test.needs+`"`) {
			t.Errorf("%s with %q: %d %s %s", test.message, test.scope, w.Code, header, w.Body)
		}
	}
	r := httptest.NewRequest("POST", c.Resource, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":`+read("secrets://milk")+`}`))
	protocolHeader(r, issuer.Mint(middlewaretest.Claims{"aud": c.Resource, "scope": "notes:admin"}))
	w := httptest.NewRecorder()
	if handler.ServeHTTP(w, r); w.Code != http.StatusForbidden || w.Header().Get("WWW-Authenticate") != "" {
		t.Errorf("what the policy does not name: %d %v", w.Code, w.Header())
	}
}

func Example_sessions() {
	key := make([]byte, 32) // the same in every process that serves the resource
	if _, err := rand.Read(key); err != nil {
		fmt.Println(err)
	}
	sessions, err := middleware.NewHandles(key)
	if err != nil {
		fmt.Println(err)
	}
	reader := &middleware.Token{Issuer: "https://auth.example.com", Subject: "reader"}
	stranger := &middleware.Token{Issuer: "https://auth.example.com", Subject: "stranger"}

	cursor := sessions.Bind("cursor of list_notes", reader, "page-2")
	page, err := sessions.Open("cursor of list_notes", reader, cursor)
	fmt.Println(page, err)

	_, err = sessions.Open("cursor of list_notes", stranger, cursor)
	fmt.Println(errors.Is(err, middleware.ErrHandle))
	_, err = sessions.Open("cursor of list_drafts", reader, cursor)
	fmt.Println(errors.Is(err, middleware.ErrHandle))
	// Output:
	// page-2 <nil>
	// true
	// true
}

// observed passes the decisions of a guard to a log and to counters.
func observed(config *middleware.Config, log *slog.Logger, decisions *expvar.Map) {
	config.Observe = func(r *http.Request, e middleware.Event) {
		decisions.Add(strconv.Itoa(e.Status)+" "+e.Code, 1) // no names: clients make them up
		if e.Status != 0 {
			log.InfoContext(r.Context(), "refused", "decision", e)
		}
	}
}

func Example_events() {
	log := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
	decisions := new(expvar.Map)
	c := config("one secret", "another", nil)
	observed(&c, log, decisions)
	guard, err := middleware.New(c)
	if err != nil {
		fmt.Println(err)
		return
	}
	r := httptest.NewRequest("POST", "https://notes.example.com/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
	guard.Protect(http.NotFoundHandler()).ServeHTTP(httptest.NewRecorder(), r)
	fmt.Println(decisions)
	// Output:
	// level=INFO msg=refused decision.status=401 decision.remote=192.0.2.1 decision.reason="middleware: This resource needs an access token."
	// {"401 ": 1}
}

// newServer is the server that the example of a test is about.
func newServer(t *testing.T, issuer string) http.Handler {
	t.Helper()
	guard, err := middleware.New(middleware.Config{
		Resource:             "https://notes.example.com/mcp",
		AuthorizationServers: []string{issuer},
		Policy:               middleware.Policy{Tools: map[string][]string{"add_note": {"notes:write"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return guard.Protect(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
}

func TestNotes(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	handler := newServer(t, issuer.URL()) // yours
	middlewaretest.Attack(t, issuer, "https://notes.example.com/mcp", handler)

	body := strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add_note"}}`)
	r := httptest.NewRequest("POST", "https://notes.example.com/mcp", body)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+issuer.Mint(middlewaretest.Claims{
		"aud": "https://notes.example.com/mcp", "sub": "reader", "scope": "notes:read",
	}))
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	if w.Code != http.StatusForbidden {
		t.Errorf("add_note without notes:write: %d", w.Code)
	}
}

// TestPage expects every Go snippet of the pages in an example, line by line with any indentation,
// so that the snippets compile and run.
func TestPage(t *testing.T) {
	var examples strings.Builder
	err := filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") {
			return err
		}
		text, err := os.ReadFile(path)
		examples.WriteString("\n" + flat(string(text)) + "\n")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range []string{"docs/middleware.md", "README.md"} {
		text, err := os.ReadFile(filepath.Join("..", "..", page))
		if err != nil {
			t.Fatal(err)
		}
		found := snippets(string(text))
		if len(found) == 0 {
			t.Errorf("%s has no snippets", page)
		}
		for _, snippet := range found {
			if !strings.Contains(examples.String(), "\n"+flat(snippet)+"\n") {
				t.Errorf("%s: no example has this snippet:\n%s", page, snippet)
			}
		}
	}
}

// snippets returns the blocks of a page that are Go.
func snippets(page string) (found []string) {
	for _, block := range strings.Split("\n"+page, "\n```go\n")[1:] {
		code, _, _ := strings.Cut(block, "\n```")
		found = append(found, code)
	}
	return found
}

// flat is a text without its indentation.
func flat(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSpace(line)
	}
	return strings.Join(lines, "\n")
}
