package authz_test

import (
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"gatehouse.example/authz/admin"
)

// The tests of this file are attacks on pages, forms and sessions: rows D-1 to D-3, D-10, D-11
// and PG-14 of docs/conformance/pages.md. A subtest begins with the id of its attack.

// everyPage returns every page that the server has for a person, by path, and the pages on the way
// to a consent.
func everyPage(t *testing.T, p *atProvider) map[string]reply {
	t.Helper()
	b, web := p.newBrowser(), testClients()["web"]
	pages := map[string]reply{}
	pages["before the provider"] = b.choose("company", asks(web))
	pages["error"] = b.open(p.issuer + "/login/company/callback?state=x")
	b.open(p.issuer + "/authorize?" + asks(web).Encode())
	pages["sign-in"] = b.follow()
	b.submit("username", personName, "password", personPassword)
	pages["consent"] = b.follow()
	paths, err := p.handler.Load().Paths()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		r := p.newRequest(http.MethodGet, p.issuer+strings.NewReplacer("{provider}", "company", "{id}", "x").Replace(path), nil)
		r.Header.Set("Accept", "text/html")
		if answer := b.do(r); strings.HasPrefix(answer.header.Get("Content-Type"), "text/html") {
			pages[path] = answer
		}
	}
	if len(pages) < 16 {
		t.Fatalf("only %d pages: %v", len(pages), slices.Collect(maps.Keys(pages)))
	}
	return pages
}

// TestNoPageIsFramed and its siblings look at every page that there is.
func TestNoPageIsFramed(t *testing.T) {
	t.Parallel()
	t.Run("J01", func(t *testing.T) {
		for name, page := range everyPage(t, newAtProvider(t, nil)) {
			if page.header.Get("X-Frame-Options") != "DENY" || !strings.Contains(page.header.Get("Content-Security-Policy"), "frame-ancestors 'none'") {
				t.Errorf("%s can be framed: %v", name, page.header)
			}
		}
	})
}

// TestNothingIsKept: no cache keeps a page, and no answer on the way to a code or token.
func TestNothingIsKept(t *testing.T) {
	t.Parallel()
	t.Run("J29", func(t *testing.T) {
		p, c := newAtProvider(t, nil), testClients()["native"]
		answers := everyPage(t, p)
		b := p.newBrowser()
		answers["the request"] = b.open(p.issuer + "/authorize?" + asks(c).Encode())
		b.follow()
		b.submit("provider", "company")
		answers["to the provider"] = b.submit("decision", "allow")
		answers["the callback"] = b.open(p.company.Return(t, b.last.header.Get("Location")).String())
		b.follow()
		answers["the code"] = b.submit("decision", "allow")
		answers["the token"] = p.toToken(c, redemption(c, answers["the code"].location(t).Query().Get("code")))
		answers["the token again"] = p.toToken(c, redemption(c, "x"))
		for name, answer := range answers {
			if answer.header.Get("Cache-Control") != "no-store" {
				t.Errorf("%s can be cached: %s", name, answer)
			}
		}
		if answers["the token"].status != http.StatusOK {
			t.Errorf("%s", answers["the token"])
		}
	})
}

// TestNoAddressLeaks: the addresses of pages, with transactions and codes, reach no other site: no
// page loads anything from there, and none is named as the page where a link was.
func TestNoAddressLeaks(t *testing.T) {
	t.Parallel()
	t.Run("J30", func(t *testing.T) {
		loaded := regexp.MustCompile(`(?i)(?:\ssrc=|<link[^>]*\shref=|url\(|@import)\s*["']?([^"')\s>]+)`)
		for name, page := range everyPage(t, newAtProvider(t, nil)) {
			if policy := page.header.Get("Referrer-Policy"); policy != "same-origin" && policy != "no-referrer" {
				t.Errorf("%s: Referrer-Policy %q", name, policy)
			}
			for _, found := range loaded.FindAllStringSubmatch(page.body, -1) {
				if !strings.HasPrefix(found[1], secureIssuer+"/") && !strings.HasPrefix(found[1], "/") && !strings.HasPrefix(found[1], "data:") || strings.HasPrefix(found[1], "//") {
					t.Errorf("%s loads %s", name, found[1])
				}
			}
		}
		c := testClients()["web"]
		if r := newHarness(t, setup{}).newBrowser().walk(asks(c), "allow"); r.header.Get("Referrer-Policy") != "no-referrer" {
			t.Errorf("the address of the consent page goes to the client: %v", r.header)
		}
	})
}

// TestPolicyLetsAnswersThrough: browsers apply form-action to redirects too, so that with it the
// answer to the consent form would not reach the client.
func TestPolicyLetsAnswersThrough(t *testing.T) {
	t.Parallel()
	t.Run("J31/no form-action", func(t *testing.T) {
		for name, page := range everyPage(t, newAtProvider(t, nil)) {
			if policy := page.header.Get("Content-Security-Policy"); strings.Contains(policy, "form-action") || !strings.Contains(policy, "default-src 'none'") {
				t.Errorf("%s: the policy is %q", name, policy)
			}
		}
	})
	for _, name := range []string{"web", "native", "app"} {
		t.Run("J31/"+name, func(t *testing.T) {
			h, c := newHarness(t, setup{}), testClients()[name]
			for _, decision := range []string{"allow", "deny"} {
				if r := h.newBrowser().walk(asks(c), decision); r.status != http.StatusSeeOther || !strings.HasPrefix(r.header.Get("Location"), c.redirect+"?") {
					t.Errorf("%s: %s", decision, r)
				}
			}
		})
	}
}

// TestFormsNeedNoScript: each page that asks something has a form with a button that works as soon
// as the page is there. internal/e2e looks at the pages in a browser.
func TestFormsNeedNoScript(t *testing.T) {
	t.Parallel()
	t.Run("J33", func(t *testing.T) {
		pages := everyPage(t, newAtProvider(t, nil))
		for _, name := range []string{"before the provider", "sign-in", "consent", "/account/applications/end-all", "/account/password"} {
			page := pages[name]
			_, body := withoutPasskeys(page)
			form := formTag.FindString(body)
			if form == "" || !strings.Contains(form, `method="post"`) || !strings.Contains(body, `type="submit"`) && !strings.Contains(body, "<button") {
				t.Errorf("%s: no form that a browser without script can send: %s", name, page)
			}
			if strings.Contains(body, "<script") || strings.Contains(body, " onclick=") || strings.Contains(body, " onsubmit=") {
				t.Errorf("%s: a script decides: %s", name, page)
			}
		}
	})
}

// TestFormsOfOthers: a form counts only from a page of this server, for the browser, session,
// transaction and purpose for which it was made, once.
func TestFormsOfOthers(t *testing.T) {
	t.Parallel()
	web := testClients()["web"]
	// signedIn returns a browser on the consent page, and its form.
	signedIn := func(t *testing.T) (*atProvider, *browser, url.Values) {
		p := newAtProvider(t, nil)
		b := p.newBrowser().atConsent(personName)
		_, values := b.page.inputs(t)
		return p, b, replaced(values, "decision", "allow")
	}
	attacks(t, map[string]func(*testing.T){
		"J02/a form of another site, without the token": func(t *testing.T) {
			p, b, values := signedIn(t)
			for _, path := range []string{"/consent", "/login", "/logout", "/account/applications", "/account/applications/end-all", "/account/sessions", "/account/providers", "/account/password", "/account/remembered"} {
				sent := replaced(maps.Clone(values), "csrf", "", "sign-out", "x", "connect", "company", "what", "all")
				if r := p.with(b.jar, postForm(p.harness, path, sent)); r.status < 400 || r.status >= 500 || r.header.Get("Set-Cookie") != "" {
					t.Errorf("%s: %s", path, r)
				}
			}
			if !b.live() {
				t.Error("the session ended")
			}
		},
		"J03/the right token from another origin": func(t *testing.T) {
			p, b, values := signedIn(t)
			for _, headers := range [][2]string{
				{"Origin", "https://evil.example"}, {"Origin", "null"}, {"Origin", "http://auth.example.com"}, {"Origin", "https://auth.example.com.evil.example"},
				{"Origin", "https://auth.example.com:8443"}, {"Origin", "https://www.example.com"}, {"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"},
			} {
				r := p.newRequest(http.MethodPost, p.issuer+"/consent", values)
				r.Header.Set(headers[0], headers[1])
				r.Header.Set("Referer", p.issuer+"/consent")
				mustShow(t, p.with(b.jar, r), http.StatusForbidden, "invalid_request")
			}
			if r := b.submit("decision", "allow"); r.location(t).Query().Get("code") == "" {
				t.Errorf("the person's own answer: %s", r)
			}
		},
		"J04/the token of another form, browser or session": func(t *testing.T) {
			p, b, values := signedIn(t)
			_, _, theirs := signedIn(t)
			other := p.newBrowser()
			_, before := other.choose("company", asks(web)).inputs(t)
			for name, token := range map[string]string{"another server's": theirs.Get("csrf"), "of the page before the provider": before.Get("csrf"), "cut": values.Get("csrf")[1:]} {
				r := p.with(b.jar, postForm(p.harness, "/consent", replaced(maps.Clone(values), "csrf", token)))
				if r.status != http.StatusForbidden {
					t.Errorf("%s: %s", name, r)
				}
			}
			// The page before the other provider is another form.
			r := p.with(other.jar, postForm(p.harness, "/login", replaced(maps.Clone(before), "provider", "other", "decision", "allow")))
			mustShow(t, r, http.StatusForbidden, "invalid_request")
		},
		"J15/the decision page of another browser": func(t *testing.T) {
			p, b, values := signedIn(t)
			thief := p.newBrowser()
			for range 2 { // without and with a session
				r := p.with(thief.jar, postForm(p.harness, "/consent", values))
				mustShow(t, r, http.StatusBadRequest, "invalid_request")
				mustShow(t, thief.open(p.issuer+"/consent?transaction="+values.Get("transaction")), http.StatusBadRequest, "invalid_request")
				thief.code(asks(web))
			}
			if r := b.submit("decision", "allow"); r.location(t).Query().Get("code") == "" {
				t.Errorf("the person's own answer: %s", r)
			}
		},
		"J16/a second answer": func(t *testing.T) {
			p, b, values := signedIn(t)
			b.submit("decision", "deny")
			mustShow(t, p.with(b.jar, postForm(p.harness, "/consent", values)), http.StatusBadRequest, "invalid_request")
		},
		"J17/signing somebody in as the attacker": func(t *testing.T) {
			p, victim, _ := signedIn(t)
			p.addPerson("attacker")
			attacker := p.newBrowser()
			attacker.open(p.issuer + "/authorize?" + asks(web).Encode())
			attacker.follow()
			_, values := attacker.page.inputs(t)
			values = replaced(values, "username", "attacker", "password", personPassword)
			for _, b := range []*browser{victim, p.newBrowser()} {
				r := p.with(b.jar, postForm(p.harness, "/login", values))
				mustShow(t, r, http.StatusBadRequest, "invalid_request")
				if cookiesOf(t, r)[hostSession] != nil {
					t.Error("the browser is signed in as the attacker")
				}
			}
			if !victim.signedIn() {
				t.Error("the victim's session ended")
			}
		},
	})
}

// TestSessionsArePrivate: a session begins with a new secret and its own cookie, ends in the store,
// and is that of no other server.
func TestSessionsArePrivate(t *testing.T) {
	t.Parallel()
	web := testClients()["web"]
	here, err := url.Parse(secureIssuer)
	if err != nil {
		t.Fatal(err)
	}
	secretOf := func(b *browser) string {
		for _, cookie := range b.jar.Cookies(here) {
			if cookie.Name == hostSession {
				return cookie.Value
			}
		}
		return ""
	}
	attacks(t, map[string]func(*testing.T){
		"J05/a planted session, with a provider": func(t *testing.T) {
			p := newAtProvider(t, nil)
			attacker, victim := p.newBrowser(), p.newBrowser()
			attacker.code(asks(web))
			planted := secretOf(attacker)
			p.clock.advance(time.Second)
			victim.jar.SetCookies(here, []*http.Cookie{{Name: hostSession, Value: planted, Path: "/", Secure: true}})
			victim.arrive(p.company, "company", replaced(asks(web), "prompt", "login"))
			if got := secretOf(victim); got == planted || got == "" {
				t.Error("the sign-in kept the planted secret")
			}
			if attacker.signedIn() {
				t.Error("the planted session is still one")
			}
		},
		"J06/a session that ended": func(t *testing.T) {
			p := newAtProvider(t, nil)
			for name, end := range map[string]func(b *browser){
				"signed out":        func(b *browser) { b.press("sign-out") },
				"a new password":    func(*browser) { p.must(admin.SetPassword(t.Context(), p.store, personName, personPassword)) },
				"idle for too long": func(*browser) { p.clock.advance(25 * time.Hour) },
			} {
				b := p.newBrowser().atConsent(personName)
				kept := secretOf(b)
				end(b)
				b.jar.SetCookies(here, []*http.Cookie{{Name: hostSession, Value: kept, Path: "/", Secure: true}})
				if b.live() {
					t.Errorf("%s: it is still a session", name)
				}
			}
			b := p.newBrowser().atConsent(personName)
			p.must(admin.RemoveUser(t.Context(), p.store, personName))
			p.addPerson(personName) // somebody else with the same name
			if b.live() {
				t.Error("the session is that of the next person of the name")
			}
		},
		"J07/cookies on the way over a provider": func(t *testing.T) {
			p := newAtProvider(t, nil)
			b := p.newBrowser()
			b.choose("company", asks(web))
			for _, r := range []reply{b.submit("decision", "allow"), b.open(p.company.Return(t, b.last.header.Get("Location")).String())} {
				if len(r.header.Values("Set-Cookie")) == 0 {
					t.Errorf("no cookie: %s", r)
				}
				for name, c := range cookiesOf(t, r) {
					if !strings.HasPrefix(name, "__Host-") || !c.Secure || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Path != "/" || c.Domain != "" {
						t.Errorf("%s", c.Raw)
					}
				}
			}
		},
		"J08/a cookie of a sibling domain beside the real one": func(t *testing.T) {
			p := newAtProvider(t, nil)
			victim, attacker := p.newBrowser(), p.newBrowser()
			attacker.choose("company", asks(web))
			back := attacker.leave(p.company)
			victim.choose("company", asks(web))
			for _, order := range [][]*browser{{victim, attacker}, {attacker, victim}} {
				var both []string
				for _, b := range order {
					for _, c := range b.jar.Cookies(here) {
						both = append(both, c.Name+"="+c.Value)
					}
				}
				r := p.newRequest(http.MethodGet, back.String(), nil)
				r.Header.Set("Cookie", strings.Join(both, "; "))
				mustShow(t, p.send(r), http.StatusBadRequest, "invalid_request")
			}
		},
		"J09/the session of another issuer on the host": func(t *testing.T) {
			one, other := newHarness(t, setup{}), newHarness(t, setup{issuer: secureIssuer + "/tenant"})
			b := one.newBrowser()
			b.code(asks(web))
			for _, name := range []string{hostSession, "__Host-" + cookieName(other.issuer, "authz_session"), cookieName(other.issuer, "authz_session")} {
				r := other.newRequest(http.MethodGet, other.issuer+"/authorize", replaced(asks(web), "prompt", "none"))
				r.Header.Set("Cookie", cookieHeader(name, secretOf(b)))
				if answer := other.send(r); !strings.Contains(answer.body, "login_required") {
					t.Errorf("%s: %s", name, answer)
				}
			}
		},
	})
}
