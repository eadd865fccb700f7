package authz_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"gatehouse.example/authz/upstream/upstreamtest"
)

// signedInAtProvider has the provider say when the person signed in there.
func (p *atProvider) signedInAtProvider(at time.Time) {
	p.company.Change(func(a *upstreamtest.Answers) {
		a.IDToken = func(m map[string]any) { m["auth_time"] = at.Unix() }
	})
}

// TestSignedInLongAgoAtTheProvider: who signed in at the provider longer ago than a session here may
// last comes in all the same, and the session ends that long after it began here.
func TestSignedInLongAgoAtTheProvider(t *testing.T) {
	t.Parallel()
	p, web := newAtProvider(t, nil), testClients()["web"]
	p.signedInAtProvider(p.clock.Now().Add(-48 * time.Hour))
	b := p.newBrowser()
	if page := b.arrive(p.company, "company", asks(web)); !strings.Contains(page.body, `name="decision"`) {
		t.Fatalf("the sign-in does not count: %s", page)
	}
	for range 11 {
		p.clock.advance(time.Hour)
		if got := b.unasked(asks(web)); got != "consent_required" {
			t.Fatalf("within half a day: %s", got)
		}
		p.handler.Load().DoChores(t.Context())
	}
	p.clock.advance(time.Hour)
	if got := b.unasked(asks(web)); got != "login_required" {
		t.Errorf("after half a day: %s", got)
	}
}

// TestAgeAtTheProviderIsKept: a request that takes a sign-in of within an hour makes it no newer: one
// that wants it of within ten minutes asks again, and so does a page on which people change how they
// sign in.
func TestAgeAtTheProviderIsKept(t *testing.T) {
	t.Parallel()
	p, web := newAtProvider(t, nil), testClients()["web"]
	p.signedInAtProvider(p.clock.Now().Add(-50 * time.Minute))
	b := p.newBrowser()
	if page := b.arrive(p.company, "company", replaced(asks(web), "max_age", "3600")); !strings.Contains(page.body, `name="decision"`) {
		t.Fatalf("the sign-in does not count: %s", page)
	}
	p.clock.advance(time.Second)
	for age, want := range map[string]string{"3600": "consent_required", "600": "login_required"} {
		if got := b.unasked(replaced(asks(web), "max_age", age)); got != want {
			t.Errorf("max_age=%s: %s, want %s", age, got, want)
		}
	}
	if r := b.open(p.issuer + "/account/providers"); r.status != http.StatusSeeOther || !strings.Contains(r.header.Get("Location"), "/login?transaction=") {
		t.Errorf("the page of providers does not ask for a new sign-in: %s", r)
	}
}

// TestAnotherRequestMakesNobodyNewer: a request that wants a new sign-in, or one of within ten minutes,
// is not met by a sign-in at the provider that is older, though another request brought the person
// from there later.
func TestAnotherRequestMakesNobodyNewer(t *testing.T) {
	t.Parallel()
	p, web := newAtProvider(t, nil), testClients()["web"]
	p.signedInAtProvider(p.clock.Now().Add(-50 * time.Minute))
	for what, c := range map[string]struct {
		with []string
		page string
	}{
		"prompt=login":   {[]string{"prompt", "login"}, "/login"},
		"max_age=600":    {[]string{"max_age", "600"}, "/login"},
		"max_age=3600":   {[]string{"max_age", "3600"}, ""},
		"nothing":        {nil, ""},
		"somebody else":  {[]string{"login_hint", "grace@example.com"}, ""},
		"this very name": {[]string{"login_hint", "ada@example.com"}, ""},
	} {
		b := p.newBrowser()
		at := b.open(p.issuer + "/authorize?" + replaced(asks(web), c.with...).Encode()).location(t)
		p.clock.advance(time.Second)
		if page := b.arrive(p.company, "company", asks(web)); !strings.Contains(page.body, `name="decision"`) {
			t.Fatalf("%s: the other request: %s", what, page)
		}
		p.clock.advance(time.Second)
		r := b.open(p.issuer + "/consent?transaction=" + at.Query().Get("transaction"))
		if to := r.header.Get("Location"); (c.page != "") != strings.HasPrefix(to, p.issuer+c.page+"?") || c.page == "" && r.status != http.StatusOK {
			t.Errorf("%s: %s", what, r)
		}
	}
}
