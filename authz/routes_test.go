package authz_test

import (
	"net/http"
	"strings"
	"testing"
)

// openPaths are the paths that pages of any origin may call, closedPaths the other ones. Each
// has a method that it supports.
var (
	openPaths = map[string]string{
		"/.well-known/oauth-authorization-server": "GET", "/.well-known/openid-configuration": "GET", "/jwks.json": "GET",
		"/token": "POST", "/revoke": "POST", "/register": "POST", "/register/anything": "GET",
	}
	closedPaths = map[string]string{
		"/authorize": "GET", "/login": "POST", "/logout": "POST", "/language": "GET", "/logo": "GET", "/consent": "POST", "/account": "GET", "/account/applications": "POST", "/account/applications/end-all": "POST",
		"/account/remembered": "POST", "/account/sessions": "POST", "/account/activity": "GET",
		"/introspect": "POST", "/healthz": "GET",
		"/passkey.js": "GET", "/login/passkey": "POST", "/login/code": "POST", "/invite": "POST",
		"/account/passkeys": "POST", "/account/second-factor": "POST", "/account/password": "POST",
		"/login/{provider}/callback": "GET", "/account/providers": "POST",
	}
)

// TestRoutes: each path of the server is in openPaths or closedPaths, so that TestCORS tests
// it. TestRootIsAPageForPeople tests the root.
func TestRoutes(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	paths, err := h.handler.Load().Paths()
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	for _, path := range paths {
		tried := strings.ReplaceAll(path, "{id}", "anything")
		tried, _ = strings.CutSuffix(tried, "/") // documents answer there too
		if openPaths[tried] == "" && closedPaths[tried] == "" && path != "/" {
			t.Errorf("%s is neither in openPaths nor in closedPaths: say whether pages of other origins may call it", path)
		}
	}
}

// TestEveryFormIsOfThisSite: each page that takes forms refuses those that a page of another site sends,
// or an http page of this host, and reads none of them.
func TestEveryFormIsOfThisSite(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	const refusal = "It was sent from another site."
	forms := 0
	for path := range closedPaths {
		if path == "/introspect" || h.send(postForm(h, path, nil)).status == http.StatusMethodNotAllowed {
			continue
		}
		forms++
		for _, header := range [][2]string{
			{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "https://evil.example"}, {"Origin", "null"}, {"Origin", "http" + strings.TrimPrefix(origin(h.issuer), "https")},
		} {
			r := h.newRequest(http.MethodPost, h.issuer+path, nil)
			r.Header.Set(header[0], header[1])
			if got := h.send(r); got.status != http.StatusForbidden || !strings.Contains(got.body, refusal) {
				t.Errorf("%s with %s: %s", path, header, got)
			}
		}
		if got := h.send(postForm(h, path, nil)); strings.Contains(got.body, refusal) {
			t.Errorf("%s refuses a form of its own: %s", path, got)
		}
	}
	if forms < 14 {
		t.Errorf("%d pages take forms", forms)
	}
}
