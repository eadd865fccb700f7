package authz_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"gatehouse.example/authz/admin"
	"gatehouse.example/authz/upstream/upstreamtest"
	"gatehouse.example/storage"
)

// The tests of this file are attacks by what is sent to the pages: rows D-7 to D-9 of
// docs/conformance/pages.md. A subtest begins with the id of its attack.

// inert fails if text of others became markup, or can turn the direction of what stands around it.
func inert(t *testing.T, what string, page reply) {
	t.Helper()
	for _, bad := range []string{"<script>alert", "<img src=x", "\" onfocus=", "javascript:", "\u202e", "\u2066"} {
		if strings.Contains(page.body, bad) {
			t.Errorf("%s: the page contains %q", what, bad)
		}
	}
}

const hostile = `"><script>alert(1)</script><img src=x onerror=alert(1)>" onfocus="alert(1)` + "\u202egpj\u2066"

// TestTextOfOthersIsInert: what clients, providers and links say is text on every page.
func TestTextOfOthersIsInert(t *testing.T) {
	t.Parallel()
	web := testClients()["web"]
	attacks(t, map[string]func(*testing.T){
		"J10/J34/the names of client and person": func(t *testing.T) {
			p := newAtProvider(t, nil)
			c := web
			c.Metadata.ClientName = hostile
			c = p.lookAlike(c)
			p.company.SignIn(upstreamtest.Person{Subject: "248", Claims: map[string]any{
				"name": hostile, "preferred_username": hostile, "email": hostile + "@example.com", "email_verified": true, "groups": []string{hostile},
			}})
			b := p.newBrowser()
			inert(t, "before the provider", b.choose("company", asks(c)))
			inert(t, "consent", b.arrive(p.company, "company", asks(c)))
			b.decide(asks(c), "always")
			for _, path := range []string{"/account", "/account/applications", "/account/remembered", "/account/sessions", "/account/activity", "/account/providers"} {
				page := b.open(p.issuer + path)
				if page.status != http.StatusOK {
					t.Errorf("%s: %s", path, page)
				}
				inert(t, path, page)
			}
		},
		"J10/what a provider says on an error": func(t *testing.T) {
			p := newAtProvider(t, nil)
			b := p.newBrowser()
			b.choose("company", asks(web))
			p.company.Change(func(a *upstreamtest.Answers) {
				a.Callback = func(v url.Values) { v.Del("code"); v.Set("error", hostile); v.Set("error_description", hostile) }
			})
			page := b.open(b.leave(p.company).String())
			if page.status < 400 {
				t.Errorf("%s", page)
			}
			inert(t, "the error", page)
		},
		"J11/parameters of a link": func(t *testing.T) {
			p := newAtProvider(t, nil)
			for _, name := range []string{"client_id", "redirect_uri", "scope", "resource", "response_type", "prompt", "login_hint", "max_age", "state", "code_challenge"} {
				r := p.newBrowser()
				page := r.open(p.issuer + "/authorize?" + replaced(asks(web), name, hostile).Encode())
				if page.status == http.StatusSeeOther {
					page = r.follow()
				}
				inert(t, name, page)
			}
			for _, path := range []string{"/login?transaction=", "/consent?transaction=", "/language?language=", "/login/company/callback?state=", "/invite?token="} {
				inert(t, path, p.get(path+url.QueryEscape(hostile)))
			}
		},
	})
}

// TestNoRedirectElsewhere: no parameter, path or Host leads a browser from this server to another
// place than a client's registered one.
func TestNoRedirectElsewhere(t *testing.T) {
	t.Parallel()
	p, web := newAtProvider(t, nil), testClients()["web"]
	b := p.newBrowser().atConsent(personName)
	elsewhere := func(t *testing.T, what string, r reply) {
		t.Helper()
		if location := r.header.Get("Location"); strings.Contains(location, "evil") && !strings.HasPrefix(location, p.issuer+"/") || strings.HasPrefix(location, "//") {
			t.Errorf("%s: it leads to %s", what, location)
		}
		if strings.Contains(r.body, `href="https://evil`) || strings.Contains(r.body, `href="//evil`) || strings.Contains(strings.ToLower(r.body), `http-equiv="refresh"`) {
			t.Errorf("%s: the page leads there: %s", what, r)
		}
	}
	t.Run("J22", func(t *testing.T) {
		for _, name := range []string{"return", "return_to", "redirect", "redirect_uri", "next", "back", "url", "continue", "target"} {
			for _, path := range []string{"/", "/login", "/consent", "/account", "/account/applications", "/language", "/logout", "/login/company/callback"} {
				for _, value := range []string{"https://evil.example", "//evil.example", `/\evil.example`, "/%5Cevil.example", "javascript:evil", "@evil.example", ".evil.example", ":pass@evil.example"} {
					elsewhere(t, path+" "+name, b.open(p.issuer+path+"?language=fr&"+url.Values{name: {value}}.Encode()))
				}
			}
		}
	})
	t.Run("J23", func(t *testing.T) {
		for _, path := range []string{"//evil.example", "//evil.example/", "//evil.example/..", "/login/", "/login//evil.example", "/%2f%2fevil.example", "/./account", "/account/../login", "/account//sessions", "/.//evil.example", "/login/company/callback/"} {
			for _, host := range []string{"auth.example.com", "evil.example"} {
				r := p.newRequest(http.MethodGet, p.issuer+path, nil)
				r.Host = host
				answer := p.with(nil, r)
				if location := answer.header.Get("Location"); location != "" && !strings.HasPrefix(location, p.issuer+"/") {
					t.Errorf("%s at %s: it leads to %s", path, host, location)
				}
				elsewhere(t, path, answer)
			}
		}
	})
	t.Run("J32", func(t *testing.T) {
		for _, to := range []string{
			"https://evil.example/callback", "https://client.example.org@evil.example/callback", "https://client.example.org.evil.example/callback",
			"https://client.example.org/callback/../evil", "https://client.example.org/callback?evil", "https://client.example.org:444/callback#evil", "//evil.example/callback", "javascript:evil",
		} {
			for _, more := range []string{"", "none", "login"} {
				r := b.open(p.issuer + "/authorize?" + replaced(asks(web), "redirect_uri", to, "prompt", more).Encode())
				mustShow(t, r, http.StatusBadRequest, "invalid_request")
				elsewhere(t, to, r)
			}
		}
	})
}

// TestGuessing: guesses are counted for the person and network that they are for and from, however
// both are written; answers do not tell who exists; nobody is locked out.
func TestGuessing(t *testing.T) {
	t.Parallel()
	// guesses sends wrong passwords, and returns how many were compared.
	guesses := func(h *harness, n int, from, name func(i int) string) int64 {
		compared, f := h.countComparisons(), h.newBrowser().signInForm()
		for i := range n {
			f.send(from(i), name(i), fmt.Sprint("guess ", i))
		}
		return compared.Load()
	}
	always := func(s string) func(int) string { return func(int) string { return s } }
	attacks(t, map[string]func(*testing.T){
		"J24/spellings of one name": func(t *testing.T) {
			h := newHarness(t, setup{config: behindProxy})
			spellings := []string{personName, "READER", "Reader", " reader", "reader\t", "rEADER "}
			if n := guesses(h, 90, always("192.0.2.1"), func(i int) string { return spellings[i%len(spellings)] }); n > 30 {
				t.Errorf("%d guesses, want at most 30", n)
			}
			for _, other := range []string{"ｒeader", "reader\u200b", "reader\x00", "re\u0430der"} {
				if r := h.newBrowser().signInForm().send("198.51.100.1", other, personPassword); r.status != http.StatusForbidden && r.status != http.StatusBadRequest {
					t.Errorf("%q signs in: %s", other, r)
				}
			}
		},
		"J25/addresses of one network": func(t *testing.T) {
			for name, from := range map[string]func(i int) string{
				"a /64":  func(i int) string { return fmt.Sprintf("2001:db8:0:1:%x::%x", i, i) },
				"mapped": func(i int) string { return []string{"192.0.2.1", "::ffff:192.0.2.1", "::ffff:c000:201"}[i%3] },
			} {
				h := newHarness(t, setup{config: behindProxy})
				if n := guesses(h, 90, from, always(personName)); n > 30 {
					t.Errorf("%s: %d guesses, want at most 30", name, n)
				}
			}
		},
		"J26/who exists": func(t *testing.T) {
			p := newAtProvider(t, behindProxy)
			p.newBrowser().arrive(p.company, "company", asks(testClients()["web"]))
			p.addPerson("disabled")
			p.must(admin.DisableUser(t.Context(), p.store, "disabled"))
			subject, err := p.store.NewID()
			p.must(err)
			p.must(p.store.CreateUser(t.Context(), storage.User{Name: "keys-only", Subject: subject, Created: p.clock.Now()}))
			compared := p.countComparisons()
			answers := map[string][]string{}
			for i, name := range []string{personName, "nobody", "disabled", "keys-only", adaName, "company/nobody", "<>"} {
				f := p.newBrowser().signInForm()
				before := compared.Load()
				var seen []string
				for range 40 {
					r := f.send(fmt.Sprintf("10.0.%d.1", i), name, "wrong")
					seen = append(seen, fmt.Sprint(r.status))
				}
				kind := fmt.Sprint(seen, compared.Load()-before)
				answers[kind] = append(answers[kind], name)
			}
			if len(answers) != 1 {
				t.Errorf("the answers differ: %v", answers)
			}
		},
		"J27/locking somebody out": func(t *testing.T) {
			h := newHarness(t, setup{config: behindProxy})
			known := h.newBrowser()
			mustSignIn(t, "the first time", known.signInForm().send("192.0.2.1", personName, personPassword))
			guesses(h, 600, func(i int) string { return fmt.Sprintf("192.0.%d.1", i%7) }, always(personName))
			mustSignIn(t, "from elsewhere", h.newBrowser().signInForm().send("198.51.100.1", personName, personPassword))
			mustSignIn(t, "the known browser, from the attacker's network", known.signInForm().send("192.0.2.1", personName, personPassword))
		},
	})
}
