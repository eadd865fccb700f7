package authz

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// newPaths returns a router whose handlers answer with the template of their path and the variable
// segment.
func newPaths(templates ...string) *paths {
	p := &paths{missing: http.HandlerFunc(notFound)}
	for _, template := range templates {
		p.add(template, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write([]byte(template + " " + r.PathValue("id") + r.PathValue("provider")))
		}))
	}
	return p
}

func answerAt(p *paths, path string) string {
	at, err := url.Parse("http://auth.example.com" + path)
	if err != nil {
		return "no request"
	}
	w := httptest.NewRecorder()
	p.ServeHTTP(w, &http.Request{Method: http.MethodGet, URL: at, Header: http.Header{}})
	if w.Code == http.StatusNotFound {
		return "none"
	}
	return w.Body.String()
}

var samplePaths = []string{"/t/token", "/t/register", "/t/register/{id}", "/t/login/{provider}/callback", "/t/login/{provider}/logout", "/t/", "/t"}

// TestPathsAreExact: a request reaches a handler by the path that the client wrote, letter by letter.
func TestPathsAreExact(t *testing.T) {
	t.Parallel()
	p := newPaths(samplePaths...)
	p.add("/t/token", http.HandlerFunc(notFound)) // the first handler keeps the path
	for path, want := range map[string]string{
		"/t/token": "/t/token ", "/t": "/t ", "/t/": "/t/ ", "/t/register": "/t/register ",
		"/t/register/abc": "/t/register/{id} abc", "/t/register/a%2Fb": "/t/register/{id} a%2Fb", "/t/register/..": "/t/register/{id} ..",
		"/t/login/company/callback": "/t/login/{provider}/callback company", "/t/login/company/logout": "/t/login/{provider}/logout company",

		"/t/tok%65n": "none", "/t/Token": "none", "/t//token": "none", "/t/token/": "none", "/t/./token": "none", "//t/token": "none", "/t/token;x": "none",
		"/t/register/": "none", "/t/register/a/b": "none", "/t/login//callback": "none", "/t/login/a/b/callback": "none", "/t/login/callback": "none",
		"/t/login/company/callback/": "none", "": "none", "/": "none",
	} {
		if got := answerAt(p, path); got != want {
			t.Errorf("%q: %s, want %s", path, got, want)
		}
	}
	if got := p.templates(); len(got) != len(samplePaths) || !slices.Contains(got, "/t/register/{id}") {
		t.Error(got)
	}
}

// FuzzPaths: whatever the path, at most one template has it, and that is the one whose handler is
// called.
func FuzzPaths(f *testing.F) {
	for _, path := range []string{"/t/token", "/t/register/a%2fb", "/t/login//callback", "/t/login/%/callback"} {
		f.Add(path)
	}
	p := newPaths(samplePaths...)
	f.Fuzz(func(t *testing.T, path string) {
		at, err := url.Parse("http://auth.example.com" + path)
		if err != nil || at.Host != "auth.example.com" {
			return
		}
		want := "none"
		segments := strings.Split(at.EscapedPath(), "/")
		for _, template := range samplePaths {
			if fits(strings.Split(template, "/"), segments) {
				want = template
			}
		}
		if got, _, _ := strings.Cut(answerAt(p, path), " "); got != want {
			t.Errorf("%q: %s, want %s", path, got, want)
		}
	})
}

// fits compares a template and a path segment by segment.
func fits(template, segments []string) bool {
	return slices.EqualFunc(template, segments, func(want, got string) bool {
		return want == got || strings.HasPrefix(want, "{") && got != ""
	})
}
