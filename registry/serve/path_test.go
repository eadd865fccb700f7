package serve_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"gatehouse.example/registry/serve"
)

// TestServedPaths: the routes of paths with different escapes.
func TestServedPaths(t *testing.T) {
	c := newDesk(t, serve.Config{},
		rowOf("com.example/notes", "1.0.0"),
		rowOf("com.example/notes", "1.0.0+a/b c", isOlder),
		rowOf("com.example/notes", "versions", isOlder),
		rowOf("com.example/versions", "1.0.0"),
		rowOf("com.example/notes.v2", "1.0.0"),
	)
	const notes = "/v0.1/servers/com.example%2Fnotes/versions"
	for path, want := range map[string]string{ // the status, and for 200 the names
		"/v0.1/servers/com.example%2Fnotes/versions":     "200 com.example/notes",
		"/v0.1/servers/com.example%2fnotes/versions":     "200 com.example/notes",
		"/v0.1/servers/com%2Eexample%2Fn%6Ftes/versions": "200 com.example/notes",
		"/v0/servers/com.example%2Fnotes/versions":       "200 com.example/notes",
		"/v0.1/servers/com.example/notes/versions":       "200 com.example/notes", // a proxy unescaped it
		"/v0.1/servers/com.example%2Fversions/versions":  "200 com.example/versions",
		"/v0.1/servers/com.example/versions/versions":    "200 com.example/versions",
		"/v0.1/servers/com.example%2Fnotes.v2/versions":  "200 com.example/notes.v2",
		notes + "/1.0.0":                                    "200 com.example/notes 1.0.0",
		notes + "/latest":                                   "200 com.example/notes 1.0.0",
		notes + "/versions":                                 "200 com.example/notes versions",
		notes + "/1.0.0%2Ba%2Fb%20c":                        "200 com.example/notes 1.0.0+a/b c",
		notes + "/1.0.0+a%2Fb%20c":                          "200 com.example/notes 1.0.0+a/b c",
		"/v0.1/servers/com.example/notes/versions/1.0.0":    "200 com.example/notes 1.0.0",
		"/v0.1/servers/com.example/versions/versions/1.0.0": "200 com.example/versions 1.0.0",

		notes + "/2.0.0":                                          "404",
		notes + "/Latest":                                         "404",
		notes + "/1.0.0%2Ba/b%20c":                                "404",
		notes + "/1.0.0%252Ba":                                    "404",
		notes + "/" + strings.Repeat("9", 3000):                   "404",
		"/v0.1/servers/com.example%2Fnote/versions":               "404",
		"/v0.1/servers/com.example%2Fnotes%2F/versions":           "404",
		"/v0.1/servers/com.example%2FNotes/versions":              "404",
		"/v0.1/servers/com.example%252Fnotes/versions":            "404",
		"/v0.1/servers/com.example//notes/versions":               "404",
		"/v0.1/servers/com.example%2F%2Fnotes/versions":           "404",
		"/v0.1/servers//com.example%2Fnotes/versions":             "404",
		"/v0.1/servers/./com.example%2Fnotes/versions":            "404",
		"/v0.1/servers/x/../com.example%2Fnotes/versions":         "404",
		"/v0.1/servers/..%2F..%2Fetc/versions":                    "404",
		"/v0.1/servers/..%2Fnotes/versions":                       "404",
		"/v0.1/servers/com.example/versions":                      "404",
		"/v0.1/servers/com.example%2Fnotes":                       "404",
		"/v0.1/servers/com.example%2Fnotes/Versions":              "404",
		"/v0.1/servers/com.example%2Fnotes/versions/1.0.0/status": "404",
		"/v0.1/servers/com.example%2Fnotes%2Fversions":            "404",
		"/v0.1/servers%2Fcom.example%2Fnotes%2Fversions":          "404",
		"/v0.1%2Fservers":                                         "404",
		"/v0.2/servers":                                           "404",
		"/V0.1/servers":                                           "404",
		"/v0.1/Servers":                                           "404",
		"/v0.1":                                                   "404",
		"/v0.1/":                                                  "404",
		"/v0.1//servers":                                          "404",
		"//servers/com.example/notes":                             "404",
		"//v0.1/servers":                                          "404",
		"/v0.1/./servers":                                         "404",
		"/v0.1/publish":                                           "404",
		"/v0.1/servers/%":                                         "404",
		"/v0.1/servers/com.example%2Fno%00tes/versions":           "400",
		"/v0.1/servers/com.example%2Fno%FFtes/versions":           "400",
		notes + "/1%00":                                           "400",
		"/v0.1/servers/com.example%2Fno%C3tes/versions":           "400",
		notes + "?include_deleted=x":                              "422",
		notes + "?shape=x":                                        "422",
		notes + "?shape=record&shape=record":                      "400",
		notes + "?x=%00":                                          "400",
		notes + "/latest?include_deleted=x":                       "422",
		notes + "/latest?limit=0&search=a&cursor=unused":          "200 com.example/notes 1.0.0",
	} {
		raw, query, _ := strings.Cut(path, "?")
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.URL = parseURL(raw)
		r.URL.RawQuery = query
		w := httptest.NewRecorder()
		c.handler.ServeHTTP(w, r)
		got := fmt.Sprint(w.Code)
		switch {
		case w.Code == 200 && strings.Contains(w.Body.String(), `"servers":[`):
			got += " " + readList(t, w.Body.Bytes()).Servers[0].Name
		case w.Code == 200:
			var one struct{ Name, Version string }
			if err := json.Unmarshal(w.Body.Bytes(), &one); err != nil {
				t.Fatal(err)
			}
			got += " " + one.Name + " " + one.Version
		case strings.HasPrefix(path, "/v0"):
			if _, ok := strings.CutPrefix(path, "/v0.2"); !ok && !strings.HasPrefix(path, "/v0.1%2F") {
				readProblem(t, w)
			}
		}
		if got != want {
			t.Errorf("%s: %s, want %s\n%s", path, got, want, w.Body)
		}
	}
}

// TestNoNames: an invalid name is not looked up in the store.
func TestNoNames(t *testing.T) {
	d := newDesk(t, serve.Config{}, small()...)
	before := d.roundTrips.Load()
	for _, name := range []string{"a", "a%2Fb%2Fc", "com.example%2F" + strings.Repeat("a", 200), "com.example%2Fn%C3%B6tes", "com.example%2Fno%0Ates", "..%2Fa", "a%2F..", "%2Fa", "a%2F", "a%20b%2Fc"} {
		for _, path := range []string{"/v0.1/servers/" + name + "/versions", "/v0.1/servers/" + name + "/versions/latest", "/servers/" + name, "/icons/" + name + "/1.0.0/x"} {
			if w := d.get(path); w.Code != 404 {
				t.Errorf("%s: %d", path, w.Code)
			}
		}
	}
	if n := d.roundTrips.Load() - before; n != 0 {
		t.Errorf("%d round trips", n)
	}
}

// parseURL parses a path as a server does. A path that a server would refuse becomes the Path
// of the URL unchanged.
func parseURL(path string) *url.URL {
	u, err := url.ParseRequestURI("http://registry.example.com" + path)
	if err != nil {
		return &url.URL{Path: path}
	}
	return u
}

// TestTrailingSlash: a trailing slash redirects to the path without it, never to another host.
func TestTrailingSlash(t *testing.T) {
	c := newDesk(t, serve.Config{}, small()...)
	mounted := c.serve(serve.Config{Prefix: "/registry"})
	for _, test := range []struct {
		handler        *serve.Handler
		path, location string
	}{
		{c.handler, "/v0.1/servers/", "/v0.1/servers"},
		{c.handler, "/v0.1/servers///", "/v0.1/servers"},
		{c.handler, "/v0/servers/?limit=5&search=%2Fa", "/v0/servers?limit=5&search=%2Fa"},
		{c.handler, "/v0.1/servers/com.example%2Fnotes/versions/", "/v0.1/servers/com.example%2Fnotes/versions"},
		{c.handler, "/v0.1/servers/com.example%2fnotes/versions/1%2B1/", "/v0.1/servers/com.example%2fnotes/versions/1%2B1"},
		{c.handler, "/servers/com.example/notes/", "/servers/com.example/notes"},
		{mounted, "/registry/v0.1/servers/", "/registry/v0.1/servers"},
		{mounted, "/registry", "/registry/"},
		{mounted, "/registry?search=abc", "/registry/?search=abc"},
	} {
		w := ask(test.handler, "GET", test.path, "Host: evil.example")
		if w.Code != 308 || w.Header().Get("Location") != test.location {
			t.Errorf("%s: %d %q, want %q", test.path, w.Code, w.Header().Get("Location"), test.location)
		}
	}
	for _, path := range []string{
		"//evil.example/", "//evil.example/v0.1/servers/", "/\\evil.example/", "/%2F%2Fevil.example/", "/v0.1/servers/%2F%2Fevil.example/",
		"/v0.1//evil.example/", "/evil.example/", "/v0.1/servers/com.example%2Fnotes/versions/1/2/",
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.URL = parseURL(path)
		w := httptest.NewRecorder()
		c.handler.ServeHTTP(w, r)
		if w.Code != 404 || w.Header().Get("Location") != "" {
			t.Errorf("%s: %d, Location %q", path, w.Code, w.Header().Get("Location"))
		}
	}
	if w := ask(c.handler, "POST", "/v0.1/servers/"); w.Code != 405 {
		t.Errorf("POST: %d", w.Code)
	}
}

// TestMounted: the handler serves all paths below its prefix and no others.
func TestMounted(t *testing.T) {
	c := newDesk(t, serve.Config{}, small()...)
	mounted := c.serve(serve.Config{Prefix: "/a/registry"})
	for path, want := range map[string]int{
		"/a/registry/v0.1/servers": 200, "/a/registry/v0.1/servers/com.example%2Fnotes/versions/latest": 200, "/a/registry/": 200,
		"/v0.1/servers": 404, "/a/registryv0.1/servers": 404, "/a/v0.1/servers": 404, "/": 404, "/a%2Fregistry/v0.1/servers": 404,
	} {
		if w := ask(mounted, "GET", path); w.Code != want {
			t.Errorf("%s: %d, want %d", path, w.Code, want)
		}
	}
	// With a mux that strips the prefix, and with one that does not.
	mux := http.NewServeMux()
	mux.Handle("/b/", http.StripPrefix("/b", c.handler))
	mux.Handle("/a/registry/", mounted)
	server := httptest.NewServer(mux)
	defer server.Close()
	for _, path := range []string{"/b/v0.1/servers/com.example%2Fnotes/versions/latest", "/a/registry/v0.1/servers/com.example%2Fnotes/versions/latest"} {
		response, err := http.Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != 200 {
			t.Errorf("%s: %d", path, response.StatusCode)
		}
	}
}
