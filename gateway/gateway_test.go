package gateway_test

import (
	"bytes"
	"encoding/json"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gatehouse.example/gateway"
	"gatehouse.example/metadata"
	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

const (
	resource = "https://notes.example.com/mcp"
	// patience bounds every wait for an event that takes milliseconds.
	patience = 10 * time.Second
)

type claims = middlewaretest.Claims

// seen is a request at the upstream.
type seen struct {
	method, uri, host string
	header, trailer   http.Header
	body              []byte
	length            int64
}

// upstream is a server behind a gateway that records its requests.
type upstream struct {
	*httptest.Server
	mu       sync.Mutex
	requests []seen
}

// newUpstream starts an upstream that answers 200 with a small body.
func newUpstream(t testing.TB) *upstream {
	t.Helper()
	u := &upstream{}
	u.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		u.mu.Lock()
		u.requests = append(u.requests, seen{r.Method, r.RequestURI, r.Host, r.Header.Clone(), r.Trailer.Clone(), body, r.ContentLength})
		u.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{}}`)
	}))
	t.Cleanup(u.Close)
	return u
}

// taken returns the requests since the last call.
func (u *upstream) taken() []seen {
	u.mu.Lock()
	defer u.mu.Unlock()
	out := u.requests
	u.requests = nil
	return out
}

// log records the log of a gateway.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// gate is a gateway that listens on loopback.
type gate struct {
	*gateway.Gateway
	server *httptest.Server
	issuer *middlewaretest.Issuer
	log    *logged
}

func newGate(t testing.TB, upstream string, change ...func(*gateway.Config)) *gate {
	t.Helper()
	g := &gate{issuer: middlewaretest.NewIssuer(t), log: &logged{}}
	config := gateway.Config{
		Guard: middleware.Config{
			Resource: resource, AuthorizationServers: []string{g.issuer.URL()}, Scopes: []string{"notes:read", "notes:write"},
			Logger: slog.New(slog.NewTextHandler(g.log, nil)),
		},
		Upstream: upstream,
	}
	for _, c := range change {
		c(&config)
	}
	var err error
	if g.Gateway, err = gateway.New(config); err != nil {
		t.Fatal(err)
	}
	g.listen(t, func(*http.Server) {})
	return g
}

// listen restarts the server.
func (g *gate) listen(t testing.TB, change func(*http.Server)) {
	t.Helper()
	server := httptest.NewUnstartedServer(g)
	server.Config.ErrorLog = log.New(g.log, "", 0)
	change(server.Config)
	server.Start()
	t.Cleanup(func() {
		server.Close()
		if text := g.log.String(); strings.Contains(text, "panic") {
			t.Errorf("the server panics:\n%s", text)
		}
	})
	g.server = server
}

// token returns a token of a subject for the resource.
func (g *gate) token(t testing.TB, overrides claims) string {
	t.Helper()
	all := claims{"aud": resource, "scope": "notes:read"}
	for name, value := range overrides {
		all[name] = value
	}
	return g.issuer.Mint(all)
}

// request returns a request to the gateway with a good token. Header fields come in pairs; the
// same name may occur twice, and an empty Authorization removes the token.
func (g *gate) request(t testing.TB, method, path, body string, fields ...string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, g.server.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	r.Header.Set("Authorization", "Bearer "+g.token(t, nil))
	for i := 0; i < len(fields); i += 2 {
		if fields[i] == "Authorization" {
			r.Header.Del("Authorization")
		}
		if fields[i+1] != "" {
			r.Header[fields[i]] = append(r.Header[fields[i]], fields[i+1])
		}
	}
	return r
}

// answered is a response with its body.
type answered struct {
	status int
	header http.Header
	body   string
}

// do sends a request and reads the response. It does not follow redirects.
func do(t testing.TB, r *http.Request) answered {
	t.Helper()
	client := http.Client{Timeout: patience, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answered{res.StatusCode, res.Header, string(body)}
}

// call returns a request with a method and parameters.
func call(method string, params map[string]any) string {
	if params == nil {
		params = map[string]any{}
	}
	text, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	return string(text)
}

// describes fails the test unless a response is an error of the gateway.
func describes(t testing.TB, a answered, status int) {
	t.Helper()
	var body struct {
		Description string `json:"error_description"`
	}
	if err := json.Unmarshal([]byte(a.body), &body); err != nil || body.Description == "" || a.header.Get("Content-Type") != "application/json" {
		t.Errorf("the body is no JSON error: %q", a.body)
	}
	if a.status != status || a.header.Get("Access-Control-Allow-Origin") != "*" || a.header.Get("Cache-Control") != "no-store" {
		t.Errorf("%d %v, want %d", a.status, a.header, status)
	}
}

func TestNewRefuses(t *testing.T) {
	tests := []struct {
		name   string
		change func(*gateway.Config)
		says   string
	}{
		{"nothing", func(c *gateway.Config) { *c = gateway.Config{} }, "resource"},
		{"no upstream", func(c *gateway.Config) { c.Upstream = "" }, "no upstream"},
		{"an upstream for nothing", func(c *gateway.Config) { c.VerifyOnly = true }, "nothing is forwarded"},
		{"no issuer", func(c *gateway.Config) { c.Guard.AuthorizationServers = nil }, "authorization_servers"},
		{"http elsewhere", func(c *gateway.Config) { c.Guard.Resource = "http://notes.example.com/mcp" }, "https"},
		{"a query in the resource", func(c *gateway.Config) { c.Guard.Resource = "https://notes.example.com/mcp?tenant=1" }, "query"},
		{"dots in the resource", func(c *gateway.Config) { c.Guard.Resource = "https://notes.example.com/a%2fb" }, "escapes"},
		{"a resource at /verify", func(c *gateway.Config) { c.Guard.Resource = "https://notes.example.com/verify/x" }, "/verify"},
		{"a resource at /healthz", func(c *gateway.Config) { c.Guard.Resource = "https://notes.example.com/healthz" }, "/healthz"},
		{"a resource at /.well-known", func(c *gateway.Config) { c.Guard.Resource = "https://notes.example.com/.well-known/x" }, "/.well-known"},
		{"a resource at /jwks.json", func(c *gateway.Config) { c.Guard.Resource = "https://notes.example.com/jwks.json" }, "/jwks.json"},
		{"an upstream of another kind", func(c *gateway.Config) { c.Upstream = "ftp://127.0.0.1/" }, "must be a URL"},
		{"an upstream without a host", func(c *gateway.Config) { c.Upstream = "http:///mcp" }, "must be a URL"},
		{"an upstream without a scheme", func(c *gateway.Config) { c.Upstream = "127.0.0.1:9000" }, "upstream: it"},
		{"a password", func(c *gateway.Config) { c.Upstream = "http://u:hunter22@127.0.0.1:9000/" }, "credentials"},
		{"a password in what is no URL", func(c *gateway.Config) { c.Upstream = "http://u:hunter22@127.0.0.1:port/" }, "not a URL"},
		{"a query", func(c *gateway.Config) { c.Upstream = "http://127.0.0.1:9000/?a=b" }, "query"},
		{"a fragment", func(c *gateway.Config) { c.Upstream = "http://127.0.0.1:9000/#" }, "fragment"},
		{"dots in the upstream", func(c *gateway.Config) { c.Upstream = "http://127.0.0.1:9000/a/../b" }, "dot segments"},
		{"an identity that is none", func(c *gateway.Config) { c.Identity = "token" }, `"token" is not known`},
		{"an assertion without a key", func(c *gateway.Config) { c.Identity = gateway.IdentityAssertion }, "P-256"},
		{"a scope that is none", func(c *gateway.Config) { c.Guard.Policy.Scopes = []string{"a b"} }, "not a scope"},
	}
	for _, tt := range tests {
		config := gateway.Config{
			Guard:    middleware.Config{Resource: resource, AuthorizationServers: []string{"https://auth.example.com"}},
			Upstream: "http://127.0.0.1:9000/mcp",
		}
		tt.change(&config)
		_, err := gateway.New(config)
		if err == nil || !strings.HasPrefix(err.Error(), "gateway: ") || !strings.Contains(err.Error(), tt.says) || strings.Contains(err.Error(), "hunter22") {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

func TestOwnPaths(t *testing.T) {
	up := newUpstream(t)
	for name, g := range map[string]*gate{
		"path":   newGate(t, up.URL+"/server"),
		"origin": newGate(t, up.URL, func(c *gateway.Config) { c.Guard.Resource = "https://notes.example.com" }),
		"verify": newGate(t, "", func(c *gateway.Config) { c.VerifyOnly = true }),
	} {
		t.Run(name, func(t *testing.T) {
			for _, path := range g.MetadataPaths() {
				a := do(t, g.request(t, "GET", path, "", "Authorization", ""))
				var doc struct{ Resource string }
				if json.Unmarshal([]byte(a.body), &doc) != nil || a.status != 200 || !strings.HasPrefix(doc.Resource, "https://notes.example.com") {
					t.Errorf("%s: %d %s", path, a.status, a.body)
				}
			}
			for _, path := range []string{"/.well-known/oauth-authorization-server", "/.well-known/", "/.well-known", "/.well-known/x"} {
				describes(t, do(t, g.request(t, "GET", path, "")), http.StatusNotFound)
			}
			if a := do(t, g.request(t, "GET", "/healthz", "", "Authorization", "")); a.status != 200 || a.body != "{\"status\":\"ok\"}\n" {
				t.Errorf("/healthz: %+v", a)
			}
			a := do(t, g.request(t, "POST", "/healthz", "{}"))
			describes(t, a, http.StatusMethodNotAllowed)
			if a.header.Get("Allow") != "GET, HEAD" {
				t.Errorf("Allow: %q", a.header["Allow"])
			}
			if name != "origin" { // where there are no assertions, the path is as any other
				describes(t, do(t, g.request(t, "GET", "/jwks.json", "")), http.StatusNotFound)
			}
			if got := up.taken(); len(got) > 0 && name != "origin" {
				t.Errorf("the upstream was asked: %+v", got)
			}
			a = do(t, g.request(t, "OPTIONS", strings.TrimPrefix("/mcp", map[string]string{"origin": "/mcp"}[name])+"/", "", "Authorization", ""))
			if a.status != http.StatusNoContent || !strings.Contains(a.header.Get("Access-Control-Allow-Headers"), "Authorization") {
				t.Errorf("preflight: %+v", a)
			}
			if name == "verify" {
				describes(t, do(t, g.request(t, "POST", "/mcp", "{}")), http.StatusNotFound)
			}
			g.Stop()
			describes(t, do(t, g.request(t, "GET", "/healthz", "")), http.StatusServiceUnavailable)
		})
	}
}

func TestMethods(t *testing.T) {
	up := newUpstream(t)
	g := newGate(t, up.URL+"/server")
	for method, want := range map[string]int{
		"GET": 200, "HEAD": 200, "POST": 200, "PUT": 200, "PATCH": 200, "DELETE": 200, "OPTIONS": 204,
		"TRACE": 405, "PROPFIND": 405, "get": 405, "BREW": 405,
	} {
		a := do(t, g.request(t, method, "/mcp", ""))
		if a.status != want {
			t.Errorf("%s: %d, want %d", method, a.status, want)
		}
		if got := len(up.taken()); (got == 1) != (want == 200) {
			t.Errorf("%s: the upstream was asked %d times", method, got)
		}
		if want == 405 && a.header.Get("Allow") != "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS" {
			t.Errorf("%s: Allow is %q", method, a.header.Get("Allow"))
		}
	}
	w := httptest.NewRecorder()
	g.ServeHTTP(w, &http.Request{Method: "CONNECT", Host: "127.0.0.1:443", URL: mustParse(t, "//127.0.0.1:443"), Header: http.Header{}})
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("CONNECT: %d", w.Code)
	}
}

// Requests without a token are refused for every path and method.
func TestNothingPassesWithoutToken(t *testing.T) {
	up := newUpstream(t)
	for _, g := range []*gate{newGate(t, up.URL), newGate(t, up.URL, func(c *gateway.Config) { c.Guard.Resource = "https://notes.example.com" })} {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"} {
			for _, path := range []string{"/mcp", "/mcp/", "/mcp/x", "/", "/x", "/mcp?access_token=" + g.token(t, nil)} {
				a := do(t, g.request(t, method, path, "", "Authorization", "", "X-Forwarded-Method", "OPTIONS", "X-Original-Method", "OPTIONS", "X-Http-Method-Override", "OPTIONS"))
				if a.status != 401 && a.status != 404 {
					t.Errorf("%s %s: %d", method, path, a.status)
				}
			}
		}
	}
	if got := up.taken(); len(got) > 0 {
		t.Errorf("the upstream was asked: %+v", got)
	}
}

// Refusals are logged once, without possible secrets.
func TestRefusalsAreLogged(t *testing.T) {
	up := newUpstream(t)
	g := newGate(t, up.URL)
	do(t, g.request(t, "POST", "/mcp?code=hunter22", "{}", "Authorization", "Bearer hunter22"))
	do(t, g.request(t, "GET", "/elsewhere?code=hunter22", "", "Authorization", "Bearer hunter22"))
	text := g.log.String()
	for _, want := range []string{"verb=POST path=/mcp", "decision.status=401", "decision.code=invalid_token", "decision.remote=127.0.0.1", "path=/elsewhere status=404"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in the log:\n%s", want, text)
		}
	}
	if strings.Contains(text, "hunter22") || strings.Count(text, "\n") != 2 {
		t.Errorf("the log:\n%s", text)
	}
	do(t, g.request(t, "POST", "/mcp", "{}"))
	if strings.Count(g.log.String(), "\n") != 2 {
		t.Errorf("what passes is logged:\n%s", g.log.String())
	}
}

// The configured Observe is called for each decision, too.
func TestObserve(t *testing.T) {
	up := newUpstream(t)
	var mu sync.Mutex
	var statuses []int
	g := newGate(t, up.URL, func(c *gateway.Config) {
		c.Guard.Observe = func(_ *http.Request, e middleware.Event) {
			mu.Lock()
			defer mu.Unlock()
			statuses = append(statuses, e.Status)
		}
	})
	do(t, g.request(t, "POST", "/mcp", "{}"))
	do(t, g.request(t, "POST", "/mcp", "{}", "Authorization", ""))
	do(t, g.request(t, "GET", "/verify", ""))
	mu.Lock()
	defer mu.Unlock()
	if !slices.Equal(statuses, []int{0, 401, 0}) {
		t.Errorf("decisions: %v", statuses)
	}
}

// The policy of the guard applies: the message decides, and the challenge names the missing
// scopes.
func TestPolicy(t *testing.T) {
	up := newUpstream(t)
	g := newGate(t, up.URL, func(c *gateway.Config) {
		c.Guard.Policy.Tools = map[string][]string{"list_notes": {"notes:read"}, "add_note": {"notes:read", "notes:write"}}
	})
	body := " " + call("tools/call", map[string]any{"name": "list_notes"}) + "\n"
	if a := do(t, g.request(t, "POST", "/mcp", body)); a.status != 200 {
		t.Fatalf("%+v", a)
	}
	if got := up.taken(); len(got) != 1 || string(got[0].body) != body {
		t.Errorf("%+v", got)
	}
	a := do(t, g.request(t, "POST", "/mcp", call("tools/call", map[string]any{"name": "add_note"})))
	challenge := challengeOf(t, a)
	if scope, _ := challenge.Get("scope"); a.status != 403 || scope != "notes:read notes:write" {
		t.Errorf("%d %s", a.status, challenge)
	}
	if a := do(t, g.request(t, "POST", "/mcp", call("tools/call", map[string]any{"name": "other"}))); a.status != 403 {
		t.Errorf("a tool that the policy does not name: %d", a.status)
	}
	if got := up.taken(); len(got) != 0 {
		t.Errorf("%+v", got)
	}
}

func challengeOf(t testing.TB, a answered) metadata.Challenge {
	t.Helper()
	challenges, err := metadata.ParseChallenges(a.header["Www-Authenticate"])
	if err != nil || len(challenges) != 1 {
		t.Fatalf("%d: WWW-Authenticate %q: %v", a.status, a.header["Www-Authenticate"], err)
	}
	return challenges[0]
}
