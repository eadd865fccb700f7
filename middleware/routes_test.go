package middleware_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"slices"
	"strings"
	"testing"

	"gatehouse.example/metadata"
	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// apiRoutes is a policy of an API.
func apiRoutes(c *middleware.Config) {
	c.Policy = middleware.Policy{Routes: map[string][]string{
		"GET /notes":                   {"notes:read"},
		"GET /notes/{id}":              {"notes:read"},
		"PUT /notes/{id}":              {"notes:write"},
		"DELETE /notes/{id}":           {"notes:write", "notes:delete"},
		"GET /notes/trash":             {"notes:trash"},
		"POST /notes:archive":          {"notes:archive"},
		"GET /files/{path...}":         {"files:read"},
		"GET /files/Private/{path...}": {"files:private"},
		"/tree/":                       {"tree"},
		"/{$}":                         nil,
		"HEAD /notes/{id}/exists":      nil,
	}}
}

// sent returns a request as a listener reads it, with a token of some scopes.
func sent(t *testing.T, issuer *middlewaretest.Issuer, method, target, scopes string) *http.Request {
	t.Helper()
	u, err := url.ParseRequestURI(target)
	if err != nil {
		t.Fatal(err)
	}
	r := newRequest("GET", resource)
	r.Method, r.URL, r.RequestURI = method, u, target
	if scopes != "anonymous" {
		r.Header.Set("Authorization", "Bearer "+issuer.Mint(claims{"aud": resource, "scope": scopes}))
	}
	return r
}

const everything = "notes:read notes:write notes:delete notes:trash notes:archive files:read files:private tree"

// TestRoutes: the closest pattern applies, challenges name the scopes, and what is not named is
// refused to everybody.
func TestRoutes(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	var event middleware.Event
	guard := newGuard(t, issuer, apiRoutes, func(c *middleware.Config) {
		c.Observe = func(_ *http.Request, e middleware.Event) { event = e }
	})
	for _, tt := range []struct{ method, target, route, needed string }{
		{"GET", "/", "/{$}", ""},
		{"GET", "/notes", "GET /notes", "notes:read"},
		{"HEAD", "/notes", "GET /notes", "notes:read"},
		{"GET", "/notes?all=1", "GET /notes", "notes:read"},
		{"GET", "/notes/7", "GET /notes/{id}", "notes:read"},
		{"GET", "/notes/a%40b.example", "GET /notes/{id}", "notes:read"},
		{"GET", "/notes/caf%C3%A9%20au%20lait", "GET /notes/{id}", "notes:read"},
		{"PUT", "/notes/7", "PUT /notes/{id}", "notes:write"},
		{"DELETE", "/notes/7", "DELETE /notes/{id}", "notes:write notes:delete"},
		{"GET", "/notes/trash", "GET /notes/trash", "notes:trash"},
		{"POST", "/notes:archive", "POST /notes:archive", "notes:archive"},
		{"HEAD", "/notes/7/exists", "HEAD /notes/{id}/exists", ""},
		{"GET", "/files/a/b/c", "GET /files/{path...}", "files:read"},
		{"GET", "/files/Private/b", "GET /files/Private/{path...}", "files:private"},
		{"POST", "/tree/oak", "/tree/", "tree"},
		{"GET", "/tree", "/tree/", "tree"},                                                    // where ServeMux redirects to /tree/
		{"GET", "/files/Private", "GET /files/Private/{path...}", "files:private files:read"}, // other servers do not redirect
		{"HEAD", "/files/private", "GET /files/{path...}", "files:read files:private"},
		// Readings of other servers.
		{"GET", "/notes/TRASH", "GET /notes/{id}", "notes:read notes:trash"},
		{"GET", "/notes/tra%C5%BFh", "GET /notes/{id}", "notes:read notes:trash"},
		{"GET", "/notes/trash.json", "GET /notes/{id}", "notes:read notes:trash"},
		{"GET", "/notes/trash.tar.gz", "GET /notes/{id}", "notes:read notes:trash"},
		{"GET", "/files/private/b", "GET /files/{path...}", "files:read files:private"},
		{"GET", "/%EF%AC%81les/priv%C2%AAte/b", "", "-"},
		{"GET", "/files/Priv%C2%AAte/b", "GET /files/{path...}", "files:read files:private"},
		{"GET", "/files/a%EF%BC%8F..%EF%BC%8F%E2%80%A5%EF%BC%8Fnotes%EF%BC%8Ftrash", "GET /files/{path...}", "files:read notes:trash"},
		{"GET", "/files/pr%C4%B1vate/b", "GET /files/{path...}", "files:read files:private"},
		// Named by nobody.
		{"GET", "/notes/", "", "-"},
		{"GET", "/notes/7/", "", "-"},
		{"POST", "/notes", "", "-"},
		{"GET", "/notes/7/exists", "", "-"},
		{"GET", "/other", "", "-"},
		{"GET", "/NOTES", "", "-"},
		{"PATCH", "/files/a", "", "-"},
	} {
		handler := &inner{}
		w := serve(guard.Protect(handler), sent(t, issuer, tt.method, tt.target, everything))
		if tt.needed == "-" {
			if w.StatusCode != 403 || w.Header.Get("WWW-Authenticate") != "" || len(handler.requests) > 0 {
				t.Errorf("%s %s: %d, want 403 without a challenge", tt.method, tt.target, w.StatusCode)
			}
			continue
		}
		if w.StatusCode != http.StatusTeapot || event.Route != tt.route || strings.Join(event.Needed, " ") != tt.needed {
			t.Errorf("%s %s: %d, %q needs %q, want %q and %q", tt.method, tt.target, w.StatusCode, event.Route, event.Needed, tt.route, tt.needed)
		}
		for lacking := range strings.FieldsSeq(tt.needed) {
			without := strings.Join(slices.DeleteFunc(strings.Fields(everything), func(s string) bool { return s == lacking }), " ")
			w := serve(guard.Protect(handler), sent(t, issuer, tt.method, tt.target, without))
			if w.StatusCode != 403 || scopeOf(t, w) != tt.needed || len(handler.requests) > 1 {
				t.Errorf("%s %s without %s: %d %q", tt.method, tt.target, lacking, w.StatusCode, w.Header["Www-Authenticate"])
			}
		}
	}
}

// scopeOf returns the scopes in the challenge of an answer.
func scopeOf(t *testing.T, w *http.Response) string {
	t.Helper()
	challenges, err := metadata.ParseChallenges(w.Header["Www-Authenticate"])
	if err != nil || len(challenges) != 1 {
		return "no challenge"
	}
	scope, _ := challenges[0].Get("scope")
	return scope
}

// TestRoutesRefuseWhatServersReadDifferently: such requests get 400 with every scope, and do not
// reach the handler.
func TestRoutesRefuseWhatServersReadDifferently(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	handler := &inner{}
	guard := newGuard(t, issuer, apiRoutes)
	for _, target := range []string{
		"/files/a%2Fb", "/files/a%2fb", "/files/..", "/files/../notes/trash", "/files/%2e%2E/notes/trash", "/files/.", "/files//a", "//notes/7",
		"/files/a%5Cb", "/files/a;b", "/files/a%3Bb", "/files/a%00", "/files/a%0a", "/files/a%7f", "/files/a%25", "/files/a%252fb", "/files/a%3F", "/files/a%23",
		"/notes/%74rash", "/notes%3Aarchive", "/files/%ff", "/files/%c0%af", "/files/a.", "/files/a%20", "/files/%20a", "/files/...", "/files/. ./a", "/files/a%C2%A0", "/files/%E2%80%A8a", "/files/a%EF%BB%BF",
		"/notes?_method=DELETE", "/notes?a=1&%5Fmethod=DELETE",
	} {
		target = strings.ReplaceAll(target, " ", "%20")
		if w := serve(guard.Protect(handler), sent(t, issuer, "GET", target, everything)); w.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %d, want 400", target, w.StatusCode)
		}
	}
	for _, method := range []string{"get", "Get", "CONNECT", "PROP-FIND", "G3T", ""} {
		want := http.StatusBadRequest
		if method == "CONNECT" {
			want = http.StatusForbidden
		}
		if w := serve(guard.Protect(handler), sent(t, issuer, method, "/notes", everything)); w.StatusCode != want {
			t.Errorf("%q: %d, want %d", method, w.StatusCode, want)
		}
	}
	for _, name := range []string{"X-HTTP-Method-Override", "X-Http-Method", "X-Method-Override", "X_HTTP_Method_Override", "Mcp-Session-Id"} {
		r := sent(t, issuer, "GET", "/notes", everything)
		r.Header[http.CanonicalHeaderKey(name)] = []string{"DELETE"}
		if w := serve(guard.Protect(handler), r); w.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %d, want 400", name, w.StatusCode)
		}
	}
	for _, u := range []*url.URL{{Opaque: "notes"}, {Path: ""}, {Path: "*"}, {Path: "notes"}} {
		r := sent(t, issuer, "GET", "/notes", everything)
		if r.URL = u; serve(guard.Protect(handler), r).StatusCode != http.StatusBadRequest {
			t.Errorf("%#v is not refused", u)
		}
	}
	if len(handler.requests) > 0 {
		t.Errorf("%d requests reached the handler", len(handler.requests))
	}
}

// TestRoutesLeaveRequestsAlone: no body is read, query parameters of any name pass, and the
// handler gets the writer of the listener.
func TestRoutesLeaveRequestsAlone(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer, apiRoutes)
	body := &unreadBody{}
	var got http.ResponseWriter
	r := sent(t, issuer, "PUT", "/notes/7?sessionId=4711", "notes:write")
	r.Body, r.ContentLength = body, -1
	w := httptest.NewRecorder()
	guard.Protect(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { got = w })).ServeHTTP(w, r)
	if w.Code != http.StatusOK || got != http.ResponseWriter(w) || body.read {
		t.Errorf("%d %T, body read: %t", w.Code, got, body.read)
	}
}

type unreadBody struct{ read bool }

func (b *unreadBody) Read([]byte) (int, error) { b.read = true; return 0, nil }
func (b *unreadBody) Close() error             { return nil }

// TestRoutesForAnybody: with Optional, routes without scopes are public and no others.
func TestRoutesForAnybody(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer, apiRoutes, func(c *middleware.Config) { c.Optional = true })
	for target, want := range map[string]int{"/": http.StatusTeapot, "/notes": 401, "/other": 403, "/files//a": 400} {
		w := serve(guard.Protect(&inner{}), sent(t, issuer, "GET", target, "anonymous"))
		if w.StatusCode != want || want == 401 && scopeOf(t, w) != "notes:read" {
			t.Errorf("%s: %d %q, want %d", target, w.StatusCode, w.Header["Www-Authenticate"], want)
		}
	}
	w := serve(newGuard(t, issuer, apiRoutes).Protect(&inner{}), sent(t, issuer, "GET", "/", "anonymous"))
	if w.StatusCode != 401 {
		t.Errorf("without Optional: %d", w.StatusCode)
	}
	r := newRequest("OPTIONS", "/notes", "Origin", "https://app.example.com", "Access-Control-Request-Method", "GET", "Access-Control-Request-Headers", "if-match")
	if w := serve(guard.Protect(&inner{}), r); w.StatusCode != 204 || w.Header.Get("Access-Control-Allow-Headers") != "*, Authorization" {
		t.Errorf("a preflight: %d %q", w.StatusCode, w.Header)
	}
}

// TestRoutesAreAttacked sends everything that a guard refuses.
func TestRoutesAreAttacked(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer, func(c *middleware.Config) { c.Policy.Routes = map[string][]string{"/mcp": nil} })
	middlewaretest.Attack(t, issuer, resource, guard.Protect(&inner{}))
}

// TestRouteMistakes: New names patterns that can match nothing, or not what they seem to.
func TestRouteMistakes(t *testing.T) {
	for pattern, want := range map[string]string{
		"":                    "a name is empty",
		"notes":               "begins with a slash",
		"GET notes":           "begins with a slash",
		"GET example.com/":    "no host",
		"get /notes":          "capitals",
		"GET  /notes":         "begins with a slash",
		"OPTIONS /notes":      "never reaches",
		"CONNECT /notes":      "never reaches",
		"/notes//a":           "empty",
		"/notes/..":           "dots",
		"/caf\u00e9":          "many spellings",
		"/a%20b":              "many spellings",
		"/a;b":                "many spellings",
		"/notes/{id}x":        "many spellings",
		"/notes/{i-d}":        "wildcard",
		"/notes/{rest...}/x":  "end",
		"/notes/{id}/b/{id}":  "duplicate",
		"/notes/{a}\x00{b}/c": "wildcard",
	} {
		_, err := middleware.New(middleware.Config{Resource: resource, AuthorizationServers: []string{"https://auth.example.com"},
			Policy: middleware.Policy{Routes: map[string][]string{pattern: nil}}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", pattern, err, want)
		}
	}
	for name, c := range map[string]middleware.Config{
		"conflict":          {Policy: middleware.Policy{Routes: map[string][]string{"/a/{x}": nil, "/{y}/b": nil}}},
		"in lowercase":      {Policy: middleware.Policy{Routes: map[string][]string{"/A/b/{x}": nil, "/a/{y}/c": nil}}},
		"routes: they are":  {Policy: middleware.Policy{Routes: map[string][]string{"/": nil}, Tools: map[string][]string{"a": nil}}},
		"binds no sessions": {Policy: middleware.Policy{Routes: map[string][]string{"/": nil}}, Sessions: newHandles(t, 1)},
		"is not a scope":    {Policy: middleware.Policy{Routes: map[string][]string{"/": {"a b"}}}},
	} {
		c.Resource, c.AuthorizationServers = resource, []string{"https://auth.example.com"}
		if _, err := middleware.New(c); err == nil || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), ".go:") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// routers are models of servers: what path each of them looks up for a path in a request line.
var routers = map[string]func(string) string{
	"as it is sent":  func(p string) string { return p },
	"decoded":        decoded,
	"decoded twice":  func(p string) string { return decoded(decoded(p)) },
	"cleaned":        func(p string) string { return path.Clean(decoded(p)) },
	"any case":       func(p string) string { return strings.ToLower(decoded(p)) },
	"without slash":  func(p string) string { return strings.TrimSuffix(decoded(p), "/") },
	"with slash":     func(p string) string { return decoded(p) + "/" },
	"without params": func(p string) string { before, _, _ := strings.Cut(decoded(p), ";"); return before },
	"without format": func(p string) string { p = decoded(p); return strings.TrimSuffix(p, path.Ext(p)) },
	"of Windows":     func(p string) string { return path.Clean(strings.ReplaceAll(decoded(p), `\`, "/")) },
	"cut at a query": func(p string) string { before, _, _ := strings.Cut(decoded(p), "?"); return before },
	"C strings":      func(p string) string { before, _, _ := strings.Cut(decoded(p), "\x00"); return before },
	"trimmed":        func(p string) string { return strings.TrimRight(decoded(p), ". ") },
}

func decoded(p string) string {
	if out, err := url.PathUnescape(p); err == nil {
		return out
	}
	return p
}

// FuzzRoutes: whatever path is let through, no server of routers finds a route there that needs a
// scope which was not asked for.
func FuzzRoutes(f *testing.F) {
	for _, seed := range []string{"/notes/trash", "/notes/TRASH/", "/notes/%74rash", "/files/..%2fnotes", "/notes/trash.json", "/notes;a/trash", "/files/a/%5c../b", "/notes/trash%00", "/tree"} {
		f.Add(seed)
	}
	secret := map[string]string{"/notes/trash": "notes:trash", "/files/private": "files:private", "/tree": "tree"}
	issuer := middlewaretest.NewIssuer(f)
	var event middleware.Event
	guard := newGuard(f, issuer, func(c *middleware.Config) {
		c.Policy.Routes = map[string][]string{"/": nil, "/notes/trash": {"notes:trash"}, "/files/private": {"files:private"}, "/tree": {"tree"}}
		c.Observe = func(_ *http.Request, e middleware.Event) { event = e }
	})
	handler := guard.Protect(&inner{})
	token := issuer.Mint(claims{"aud": resource, "scope": "notes:trash files:private tree"})
	f.Fuzz(func(t *testing.T, target string) {
		u, err := url.ParseRequestURI(target)
		if err != nil || !strings.HasPrefix(target, "/") {
			return
		}
		r := withToken(token)
		r.Method, r.URL = "GET", u
		if serve(handler, r).StatusCode != http.StatusTeapot {
			return
		}
		line, _, _ := strings.Cut(target, "?")
		for name, look := range routers {
			if scope := secret[look(line)]; scope != "" && !slices.Contains(event.Needed, scope) {
				t.Errorf("%q needs %q, but a server that looks it up %s finds %q", target, event.Needed, name, scope)
			}
		}
	})
}
