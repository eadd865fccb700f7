package middleware_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// TestRoutesThatServersTakeForOthers shows which scopes a path needs by the ways in which servers read
// it, with patterns that a catch-all covers, too.
func TestRoutesThatServersTakeForOthers(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	var event middleware.Event
	guard := newGuard(t, issuer, func(c *middleware.Config) {
		c.Observe = func(_ *http.Request, e middleware.Event) { event = e }
		c.Policy = middleware.Policy{Scopes: []string{"api"}, Routes: map[string][]string{
			"GET /f/{path...}": {"all", "all"},
			"GET /f/{$}":       {"root"},
			"GET /f/secret":    {"secret"},
			"GET /f/box/{$}":   {"box"},
			"GET /f/tree/":     {"tree"},
			"GET /g/{n}/{$}":   {"wild"},
			"GET /{path...}":   {"rest"},
			"GET /f/In/{$}":    {"in"},
			"GET /f/a":         {"a"},
			"GET /f/b.tar":     {"tar"},
			"GET /f/Twice":     {"one"},
			"GET /f/twice":     {"two"},
		}}
	})
	for target, want := range map[string]string{
		"/f/other": "api all", "/f/": "api root rest", "/f/secret/": "api all secret", "/f/box": "api all box", "/f/in/": "api all in",
		"/f/a.json": "api all a", "/f/b.tar.gz": "api all tar", "/f/.env": "api all", "/f/Twice": "api one two all", "/f/tree": "api all tree", "/f/tree/x": "api tree", "/g/x": "api wild rest", "/f/TWICE": "api all one two",
	} {
		all := "api all root secret box in a tar one two tree wild rest"
		res := serve(guard.Protect(&inner{}), sent(t, issuer, "GET", target, all))
		if got := strings.Join(event.Needed, " "); res.StatusCode != http.StatusTeapot || len(got) != len(want) || !sameScopes(want, event.Needed) {
			t.Errorf("%s: %s, needs %q, want %q", target, res.Status, got, want)
		}
		without := strings.TrimPrefix(all, "api ")
		if res := serve(guard.Protect(&inner{}), sent(t, issuer, "GET", target, without)); res.StatusCode != http.StatusForbidden {
			t.Errorf("%s without the scope of every request: %s", target, res.Status)
		}
	}
	for _, target := range []string{"/f/%7Ea", "/f/%39", "/f/x?a=1;_method=DELETE"} {
		if res := serve(guard.Protect(&inner{}), sent(t, issuer, "GET", target, "api all")); res.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %s, want 400", target, res.Status)
		}
	}
	r := sent(t, issuer, "GET", "/f/x", "api all")
	r.URL = &url.URL{Opaque: "//example.org/f/secret", Path: "/f/x"}
	if res := serve(guard.Protect(&inner{}), r); res.StatusCode != http.StatusBadRequest {
		t.Errorf("two targets: %s", res.Status)
	}
}

// sameScopes reports whether the scopes are those of a text, in any order.
func sameScopes(text string, scopes []string) bool {
	for _, scope := range scopes {
		if !strings.Contains(" "+text+" ", " "+scope+" ") {
			return false
		}
	}
	return true
}

// TestRoutesHideOtherTargets: a handler never gets the headers from which some frameworks take
// another path than that of the request line.
func TestRoutesHideOtherTargets(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer, apiRoutes)
	r := sent(t, issuer, "GET", "/notes/7", "notes:read")
	for _, name := range []string{"X-Original-Url", "X-Rewrite-Url", "X_original_url", "X-Rewrite.url"} {
		r.Header[name] = []string{"/notes/trash"}
	}
	var h inner
	if res := serve(guard.Protect(&h), r); res.StatusCode != http.StatusTeapot {
		t.Fatal(res.Status)
	}
	for name := range h.requests[0].Header {
		if strings.Contains(strings.ToLower(name), "url") {
			t.Errorf("the handler gets %s", name)
		}
	}
}

// TestRoutesEndWithTheToken: with EndStreams, the context of a request ends when its token does.
func TestRoutesEndWithTheToken(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer, apiRoutes, func(c *middleware.Config) { c.EndStreams = true })
	ends := false
	serve(guard.Protect(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, ends = r.Context().Deadline()
	})), sent(t, issuer, "GET", "/notes", "notes:read"))
	if !ends {
		t.Error("the context does not end with the token")
	}
}

// TestNobodyElseNamesTheMethod: a handler of the protocol learns method and path from the request line
// alone, by which the guard has judged the request and what its answer may hold.
func TestNobodyElseNamesTheMethod(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	for name, guard := range map[string]*middleware.Guard{
		"with names": newGuard(t, issuer, func(c *middleware.Config) { c.Policy = notesPolicy() }), "without": newGuard(t, issuer),
	} {
		r := post(issuer, "notes:read", callTool("list_notes"))
		for _, header := range []string{"X-Http-Method-Override", "X_HTTP_METHOD_OVERRIDE", "X-Http-Method", "X-Method-Override", "X.Method", "X-Original-Url", "X-Rewrite-Url"} {
			r.Header[header] = []string{"GET"}
		}
		var h inner
		if res := serve(guard.Protect(&h), r); res.StatusCode != http.StatusTeapot {
			t.Fatalf("%s: %s", name, res.Status)
		}
		for header, values := range h.requests[0].Header {
			if values[0] == "GET" {
				t.Errorf("%s: the handler gets %s", name, header)
			}
		}
		for _, query := range []string{"_method=GET", "a=b&_m%65thod=DELETE", "a;_method"} {
			r := post(issuer, "notes:read", callTool("list_notes"))
			r.URL.RawQuery = query
			var h inner
			res := serve(guard.Protect(&h), r)
			if body, _ := io.ReadAll(res.Body); res.StatusCode != http.StatusBadRequest || len(h.requests) > 0 || !strings.Contains(string(body), `"id":`) {
				t.Errorf("%s: ?%s: %s %s", name, query, res.Status, body)
			}
		}
	}
}

// TestRoutesLeaveStreamsAlone: what an API answers is not read, also with EndStreams: it may be
// compressed, its ids of events are its own, and the end may be that of no line.
func TestRoutesLeaveStreamsAlone(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer, apiRoutes, func(c *middleware.Config) { c.EndStreams = true })
	const stream = "id: gatehouse-1\r\ndata: 1\r\n\r\ndata: the last"
	for _, coding := range []string{"", "gzip"} {
		w := httptest.NewRecorder()
		guard.Protect(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			w.Header().Set("Content-Encoding", coding)
			_, _ = io.WriteString(w, stream)
		})).ServeHTTP(w, sent(t, issuer, "GET", "/notes", "notes:read"))
		if w.Code != http.StatusOK || w.Body.String() != stream {
			t.Errorf("in the coding %q: %d %q", coding, w.Code, w.Body.String())
		}
	}
}
