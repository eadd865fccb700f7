package authz_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"gatehouse.example/authz"
	"gatehouse.example/authz/upstream/upstreamtest"
)

// happened signs in with the provider and returns the page of what happened lately.
func (b *browser) happened(fake *upstreamtest.Provider) string {
	b.h.t.Helper()
	b.open(b.h.issuer + "/account/activity")
	b.follow()
	if r := b.submit("provider", "company"); r.status != http.StatusSeeOther {
		b.h.t.Fatalf("not sent to the provider: %s", r)
	}
	b.open(fake.Return(b.h.t, b.last.header.Get("Location")).String())
	page := b.follow()
	if page.status != http.StatusOK || !strings.Contains(page.body, "What happened lately") {
		b.h.t.Fatalf("no list of what happened: %s", page)
	}
	return page.body
}

// The sentences of what a provider caused, as far as they have no markup in them.
const (
	checkFailed   = "Your sign-ins and all applications were ended, because a check of your account at"
	signedOut     = "you were signed out here too."
	logoutEnded   = "you were signed out here too, and all applications were ended."
	endedByThem   = "You ended all applications."
	signedOutThem = "You signed out everywhere else."
)

// TestActivityOfRecheck: who lost sign-ins and applications by a check at the provider reads why,
// once, and not that they ended them.
func TestActivityOfRecheck(t *testing.T) {
	t.Parallel()
	p, b, held := newRechecked(t, anybody)
	p.company.Forget()
	p.after(t, time.Hour)
	p.wantEnded(t, "removed at the provider", b, &held, true)
	page := p.newBrowser().happened(p.company)
	if strings.Count(page, checkFailed) != 1 || !strings.Contains(page, ">The company<") {
		t.Errorf("the person does not read once why it ended:\n%s", page)
	}
	for _, lie := range []string{endedByThem, signedOutThem} {
		if strings.Contains(page, lie) {
			t.Errorf("the page says %q", lie)
		}
	}
}

// TestActivityOfLogout: a logout at the provider is on the list, with what it ended, and without
// the network of the provider's server.
func TestActivityOfLogout(t *testing.T) {
	t.Parallel()
	for name, grants := range map[string]bool{"sign-ins": false, "grants too": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newAtProvider(t, func(c *authz.Config) {
				c.Providers[0].LogoutEndsGrants, c.TrustedProxies = grants, loopbackProxies
			})
			p.newBrowser().granted(p.company, testClients()["native"])
			r := p.newRequest(http.MethodPost, "/login/company/logout", p.logoutOf(map[string]any{"sub": "1"}))
			r.Header.Set("X-Forwarded-For", "192.0.2.77")
			if answer := p.send(r); answer.status != http.StatusOK {
				t.Fatal(answer)
			}
			p.clock.advance(time.Second)
			page := p.newBrowser().happened(p.company)
			if strings.Contains(page, signedOut) == grants || strings.Contains(page, logoutEnded) != grants || strings.Contains(page, "192.0.2.77") {
				t.Errorf("ends grants: %t, and the page is\n%s", grants, page)
			}
		})
	}
}
