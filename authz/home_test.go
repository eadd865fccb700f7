package authz_test

import (
	"net/http"
	"strings"
	"testing"
)

// acceptOfBrowsers is the Accept header of a browser that opens an address.
const acceptOfBrowsers = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"

// A person who opens the issuer gets a page. Programs get the same JSON 404 as before, and so
// does every method other than GET and HEAD.
func TestRootIsAPageForPeople(t *testing.T) {
	t.Parallel()
	for issuer, paths := range map[string][]string{
		secureIssuer:                          {"/"},
		loopbackIssuer:                        {"/"},
		"https://auth.example.com/tenant/one": {"/tenant/one", "/tenant/one/"},
	} {
		h := newHarness(t, setup{issuer: issuer})
		for _, path := range paths {
			for _, tt := range []struct {
				method, accept string
				page           bool
			}{
				{"GET", acceptOfBrowsers, true}, {"GET", "text/html", true}, {"HEAD", acceptOfBrowsers, true}, {"GET", "TEXT/HTML;q=0.1", true}, {"GET", "application/json, text/html", true},
				{"GET", "", false}, {"GET", "*/*", false}, {"GET", "application/json", false}, {"GET", "text/*", false}, {"GET", "text/html;q=0", false},
				{"GET", "text/html;q=none", false}, {"GET", "text/htmlx", false}, {"POST", acceptOfBrowsers, false}, {"PUT", acceptOfBrowsers, false}, {"OPTIONS", acceptOfBrowsers, false},
			} {
				r := h.newRequest(tt.method, origin(issuer)+path, nil)
				r.Header.Del("Accept")
				if tt.accept != "" {
					r.Header.Set("Accept", tt.accept)
				}
				got := h.send(r)
				name := tt.method + " " + path + " " + tt.accept
				if got.header.Get("Vary") != "Accept" {
					t.Errorf("%s: caches mix people and programs: %v", name, got.header)
				}
				if !tt.page {
					if got.status != http.StatusNotFound || got.header.Get("Content-Type") != "application/json" || !strings.Contains(got.body, `"not_found"`) {
						t.Errorf("%s: %s", name, got)
					}
					continue
				}
				if got.status != http.StatusOK || got.header.Get("Content-Type") != "text/html; charset=utf-8" || got.header.Get("Content-Security-Policy") == "" ||
					got.header.Get("X-Frame-Options") != "DENY" || got.header.Get("Access-Control-Allow-Origin") != "" || len(got.header["Set-Cookie"]) != 0 {
					t.Errorf("%s: %s %v", name, got, got.header)
				}
				if tt.method == "GET" && (!strings.Contains(got.body, "<h1>") || !strings.Contains(got.body, issuer) || strings.Contains(got.body, "which servers there are")) {
					t.Errorf("%s: %s", name, got.body)
				}
			}
		}
		for _, path := range []string{"/elsewhere", "//", "/%2f", "/tenant"} {
			r := h.newRequest("GET", origin(issuer)+path, nil)
			r.Header.Set("Accept", acceptOfBrowsers)
			if got := h.send(r); got.status != http.StatusNotFound {
				t.Errorf("%s%s: %s", issuer, path, got)
			}
		}
	}
}

// TestHomeOfWhoIsSignedIn: the page at the issuer names the signed-in person, who can sign
// out there.
func TestHomeOfWhoIsSignedIn(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	b := h.newBrowser().atConsent(personName)
	home := func() string {
		t.Helper()
		r := h.newRequest("GET", h.issuer+"/", nil)
		r.Header.Set("Accept", acceptOfBrowsers)
		got := b.do(r)
		if got.status != http.StatusOK || got.header.Get("Cache-Control") != "no-store" {
			t.Fatalf("the page at the issuer: %s %v", got, got.header)
		}
		return got.body
	}
	if body := home(); !strings.Contains(body, "You are signed in as") || !strings.Contains(body, personName) {
		t.Fatalf("it does not say who is signed in:\n%s", body)
	}
	if answer := b.press("sign-out"); answer.status != http.StatusOK || b.signedIn() {
		t.Errorf("signing out there: %s", answer)
	}
	if body := home(); strings.Contains(body, personName) {
		t.Errorf("after it the page still says who was signed in:\n%s", body)
	}
}

// TestNoIDTokensArePromised: the document for OpenID clients is the same as the other and
// does not mention ID tokens, because the server issues none.
func TestNoIDTokensArePromised(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	oauth, openID := h.get("/.well-known/oauth-authorization-server"), h.get("/.well-known/openid-configuration")
	if oauth.status != http.StatusOK || oauth.body != openID.body {
		t.Errorf("two documents:\n%s\n%s", oauth.body, openID.body)
	}
	for _, member := range []string{"id_token", "subject_types", "userinfo"} {
		if strings.Contains(openID.body, member) {
			t.Errorf("it promises %s:\n%s", member, openID.body)
		}
	}
}
