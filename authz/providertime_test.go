package authz_test

import (
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
