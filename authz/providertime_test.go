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
