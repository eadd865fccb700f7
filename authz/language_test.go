package authz_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// TestLanguageOfAPage: the person's choice in this browser decides, and before it
// Accept-Language (RFC 9110 section 12.5.4).
func TestLanguageOfAPage(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	for _, tt := range []struct{ accept, chosen, want string }{
		{"", "", `<html lang="en" dir="ltr">`},
		{"de-CH, en;q=0.5", "", `<html lang="de" dir="ltr">`},
		{"pt-BR, fr-CA;q=0.8", "", `<html lang="fr" dir="ltr">`},
		{"es-419", "", `<html lang="es" dir="ltr">`},
		{"zh-CN", "", `<html lang="zh-Hans" dir="ltr">`},
		{"tlh", "", `<html lang="en" dir="ltr">`},
		{"de;q=0, en", "", `<html lang="en" dir="ltr">`},
		{strings.Repeat("de,", 300), "", `<html lang="en" dir="ltr">`},
		{"de", "ja", `<html lang="ja" dir="ltr">`},
		{"de", "xx", `<html lang="de" dir="ltr">`},
		{"de", `"><script>`, `<html lang="de" dir="ltr">`},
	} {
		r := h.newRequest("GET", h.issuer+"/", nil)
		r.Header.Set("Accept", acceptOfBrowsers)
		r.Header.Set("Accept-Language", tt.accept)
		if tt.chosen != "" {
			r.Header.Set("Cookie", "__Host-"+cookieName(h.issuer, "authz_language")+"="+url.QueryEscape(tt.chosen))
		}
		if got := h.send(r); !strings.Contains(got.body, tt.want) {
			t.Errorf("%.40q, chosen %q: the page lacks %s: %s", tt.accept, tt.chosen, tt.want, got)
		}
	}
}

// TestChoiceOfALanguage: the link of the page sets the cookie and returns to the page, leads nowhere
// else, and is no form.
func TestChoiceOfALanguage(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	b := h.newBrowser()
	b.open(h.issuer + "/authorize?" + asks(testClients()["web"]).Encode())
	page := b.follow()
	if strings.Count(page.body, "<form") != 1 || !strings.Contains(page.body, `href="/language?language=fr&amp;return=`) {
		t.Fatalf("the sign-in page offers no language, or has another form than that to sign in: %s", page)
	}
	choose := func(language, to string) *http.Request {
		return h.newRequest(http.MethodGet, h.issuer+"/language?"+url.Values{"language": {language}, "return": {to}}.Encode(), nil)
	}
	here := page.url.RequestURI()
	for path, want := range map[string]string{
		here: here, "/": "/", "/account/sessions": "/account/sessions", "": "/",
		"https://evil.example/login": "/", "//evil.example/login": "/", `/\evil.example/login`: "/", "/login\\..": "/", "/%6cogin": "/",
		"/token": "/", "/authorize?client_id=x": "/", "login": "/", "javascript:alert(1)": "/", "/login#x": "/", "/account/../logout": "/", "/accountant": "/",
		"/login?" + strings.Repeat("x", 4096): "",
	} {
		r := choose("fr", path)
		got := b.do(r)
		if want == "" {
			if got.status != http.StatusBadRequest {
				t.Errorf("%.20q…: status %d", path, got.status)
			}
			continue
		}
		if location := got.header.Get("Location"); got.status != http.StatusSeeOther || location != h.issuer+want {
			t.Errorf("return %q: %d to %q, want %q", path, got.status, location, want)
		}
	}
	if page = b.open(h.issuer + here); !strings.Contains(page.body, `<html lang="fr"`) || !strings.Contains(page.body, "Mot de passe") {
		t.Errorf("the choice is not remembered: %s", page)
	}
	for _, language := range []string{"", "xx", "FR", "fr\x00"} {
		if got := b.do(choose(language, "/")); got.status != http.StatusBadRequest || got.header.Get("Set-Cookie") != "" {
			t.Errorf("language %q: %s", language, got)
		}
	}
	for _, site := range []string{"cross-site", "same-site", "none"} {
		foreign := choose("de", "/")
		foreign.Header.Set("Sec-Fetch-Site", site)
		if got := b.do(foreign); got.status != http.StatusSeeOther || got.header.Get("Set-Cookie") != "" {
			t.Errorf("from %s: %s", site, got)
		}
	}
}

// TestErrorsInALanguage: errors for people are in their language, those for programs in
// English.
func TestErrorsInALanguage(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	r := h.newRequest("GET", h.issuer+"/login?transaction=none", nil)
	r.Header.Set("Accept-Language", "de")
	if got := h.send(r); !strings.Contains(got.body, "Diese Seite ist abgelaufen") {
		t.Errorf("%s", got)
	}
	if logged := h.log.String(); !strings.Contains(logged, "This page has expired") {
		t.Errorf("the log is not in English: %s", logged)
	}
	r = postForm(h, "/token", url.Values{"grant_type": {"none"}})
	r.Header.Set("Accept-Language", "de")
	if got := h.send(r); !strings.Contains(got.body, "error_description") || strings.Contains(got.body, "ist") {
		t.Errorf("%s", got)
	}
}
