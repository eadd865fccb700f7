package authz_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"gatehouse.example/authz"
	"gatehouse.example/authz/admin"
	"gatehouse.example/authz/upstream"
	"gatehouse.example/authz/upstream/upstreamtest"
	"gatehouse.example/storage"
)

// down answers a path of the provider with an error.
func down(paths ...string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		for _, path := range paths {
			if r.URL.Path == path {
				http.Error(w, "down", http.StatusServiceUnavailable)
				return true
			}
		}
		return false
	}
}

// TestProviderFaults: whatever a provider answers wrongly is a page that names it, with a code, and
// makes no account and no session.
func TestProviderFaults(t *testing.T) {
	t.Parallel()
	p, c := newAtProvider(t, nil), testClients()["native"]
	for name, fault := range map[string]struct {
		answers upstreamtest.Answers
		status  int
	}{
		"wrong nonce":                     {upstreamtest.Answers{IDToken: func(m map[string]any) { m["nonce"] = "another" }}, 502},
		"no nonce":                        {upstreamtest.Answers{IDToken: func(m map[string]any) { delete(m, "nonce") }}, 502},
		"a token of another issuer":       {upstreamtest.Answers{IDToken: func(m map[string]any) { m["iss"] = p.other.URL() }}, 502},
		"a token for another client":      {upstreamtest.Answers{IDToken: func(m map[string]any) { m["aud"] = "another" }}, 502},
		"expired":                         {upstreamtest.Answers{IDToken: func(m map[string]any) { m["exp"] = 1 }}, 502},
		"mix-up: iss of another provider": {upstreamtest.Answers{Callback: func(v url.Values) { v.Set("iss", p.other.URL()) }}, 502},
		"no iss though it is promised":    {upstreamtest.Answers{Callback: func(v url.Values) { v.Del("iss") }}, 0},
		"a made-up code":                  {upstreamtest.Answers{Callback: func(v url.Values) { v.Set("code", "made-up") }}, 400},
		"neither code nor error":          {upstreamtest.Answers{Callback: func(v url.Values) { v.Del("code") }}, 400},
		"denied":                          {upstreamtest.Answers{Callback: func(v url.Values) { v.Del("code"); v.Set("error", "access_denied") }}, 403},
		"an error":                        {upstreamtest.Answers{Callback: func(v url.Values) { v.Del("code"); v.Set("error", "server_error") }}, 0},
		"tokens are down":                 {upstreamtest.Answers{First: down("/token")}, 503},
		"keys are down":                   {upstreamtest.Answers{First: down("/jwks"), Header: func(m map[string]any) { m["kid"] = "new" }}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			p.clock.advance(time.Hour) // what was wrong in another case is forgotten
			b := p.newBrowser()
			b.choose("company", asks(c))
			p.company.Change(func(a *upstreamtest.Answers) { *a = fault.answers })
			defer p.company.Change(func(a *upstreamtest.Answers) { *a = upstreamtest.Answers{} })
			r := b.open(b.leave(p.company).String())
			if r.status < 400 || fault.status != 0 && r.status != fault.status || !strings.Contains(r.body, "The company") || cookiesOf(t, r)[hostSession] != nil {
				t.Errorf("%s", r)
			}
			if r.status == http.StatusServiceUnavailable && r.header.Get("Retry-After") == "" {
				t.Error("503 without Retry-After")
			}
			if _, err := p.store.User(t.Context(), adaName); err == nil {
				t.Error("an account was made")
			}
		})
	}
	if log := p.log.String(); !strings.Contains(log, "provider company") {
		t.Errorf("the log does not say why:\n%s", log)
	}
	// Keys that were exchanged meanwhile are read again.
	p.company.Rotate()
	p.clock.advance(time.Hour)
	if page := p.newBrowser().arrive(p.company, "company", asks(c)); !strings.Contains(page.body, `value="allow"`) {
		t.Errorf("after a rotation of keys: %s", page)
	}
}

// TestProviderDown: while a provider does not answer at all, sign-ins with it get a page that says
// so, and everything else goes on.
func TestProviderDown(t *testing.T) {
	t.Parallel()
	p, c := newAtProvider(t, nil), testClients()["native"]
	held := p.newBrowser().granted(p.company, c)
	p.company.Change(func(a *upstreamtest.Answers) { a.First = down("/.well-known/openid-configuration", "/token") })
	p.restart()
	b := p.newBrowser()
	b.choose("company", asks(c))
	mustShow(t, b.submit("decision", "allow"), http.StatusServiceUnavailable, "temporarily_unavailable")
	if !strings.Contains(b.last.body, "The company") {
		t.Errorf("the page does not name the provider: %s", b.last)
	}
	if !p.active(held.access) || p.toToken(c, refreshing(c, held.refresh)).status != http.StatusOK {
		t.Error("a grant ended with the provider's answers")
	}
	if page := p.newBrowser().arrive(p.other, "other", asks(c)); page.status != http.StatusOK {
		t.Errorf("with the other provider: %s", page)
	}
	if p.newBrowser().code(asks(c)) == "" {
		t.Error("with a password")
	}
}

// TestAllowAtEachSignIn: the rules are judged at each sign-in, a configured person is pinned to
// the account that comes first, and a disabled person stays out.
func TestAllowAtEachSignIn(t *testing.T) {
	t.Parallel()
	p := newAtProvider(t, func(c *authz.Config) {
		c.Providers[0].Allow = upstream.Allow{People: []string{"ada@example.com"}, Domains: []string{"example.com", "example.org"}}
	})
	c := testClients()["native"]
	come := func(subject, email string) reply {
		p.company.SignIn(personOf(subject, email))
		b := p.newBrowser()
		b.choose("company", asks(c))
		return b.open(b.leave(p.company).String())
	}
	mustShow(t, come("9", "bob@example.com"), http.StatusForbidden, "access_denied")
	if r := come("1", "ada@example.com"); r.status != http.StatusSeeOther {
		t.Fatalf("the person who is named: %s", r)
	}
	mustShow(t, come("2", "ada@example.com"), http.StatusForbidden, "access_denied") // the address changed hands
	if r := come("1", "ada@example.org"); r.status != http.StatusSeeOther {
		t.Errorf("the same account with another address: %s", r)
	}
	mustShow(t, come("1", "ada@example.net"), http.StatusForbidden, "access_denied") // another key does not match any more
	if _, err := p.store.User(t.Context(), adaName+"~2"); err == nil {
		t.Error("an account was made for somebody who may not come in")
	}
	if err := admin.DisableUser(t.Context(), p.store, "Company/ADA@example.com"); err != nil {
		t.Fatal(err)
	}
	mustShow(t, come("1", "ada@example.com"), http.StatusForbidden, "access_denied")
}

// TestRemovedPersonIsNew: somebody who was removed and comes again has another account.
func TestRemovedPersonIsNew(t *testing.T) {
	t.Parallel()
	p, c := newAtProvider(t, nil), testClients()["native"]
	held := p.newBrowser().granted(p.company, c)
	before := p.user(t, adaName)
	if err := admin.RemoveUser(t.Context(), p.store, adaName); err != nil {
		t.Fatal(err)
	}
	if p.active(held.access) {
		t.Error("the grant of a removed person lives")
	}
	p.newBrowser().arrive(p.company, "company", asks(c))
	if after := p.user(t, adaName); after.Subject == before.Subject {
		t.Error("the new account has the old subject")
	}
	if _, err := p.store.Alias(t.Context(), storage.IdentityAlias("company", p.company.URL(), "1")); err != nil {
		t.Errorf("the alias: %v", err)
	}
}

// TestOneAccount: of many first sign-ins of one person at two processes all lead to one account,
// and of two people with one handle each has their own.
func TestOneAccount(t *testing.T) {
	t.Parallel()
	p, c := newAtProvider(t, nil), testClients()["native"]
	second := newHarness(t, setup{store: p.store, config: p.configure})
	browsers, backs := make([]*browser, 50), make([]*url.URL, 50)
	for i := range browsers {
		browsers[i] = []*harness{p.harness, second}[i%2].newBrowser()
		p.company.SignIn(personOf([]string{"1", "1", "1", "1", "2"}[i%5], "ada@example.com"))
		browsers[i].choose("company", asks(c))
		backs[i] = browsers[i].leave(p.company)
	}
	done := make(chan int, len(browsers))
	for i, b := range browsers {
		go func() { done <- b.open(backs[i].String()).status }()
	}
	for range browsers {
		if status := <-done; status != http.StatusSeeOther {
			t.Errorf("a sign-in: status %d", status)
		}
	}
	names := 0
	for user, err := range p.store.Users(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(user.Name, "company/") {
			names++
		}
	}
	if names != 2 {
		t.Errorf("two people have %d accounts", names)
	}
}
