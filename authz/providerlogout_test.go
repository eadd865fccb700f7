package authz_test

import (
	"net/http"
	"testing"
	"time"
)

// signsOutEverywhere sends a logout token for all sessions of the account 1, without a sid.
func (p *atProvider) signsOutEverywhere() {
	p.t.Helper()
	if r := p.sendLogout("company", p.logoutOf(map[string]any{"sub": "1"})); r.status != http.StatusOK {
		p.t.Errorf("a logout: %s", r)
	}
}

// TestLogoutEverywhereWhileSigningIn: a sign-in that began before the provider signed the account out
// everywhere gives no session, however far it is, and a later one does.
func TestLogoutEverywhereWhileSigningIn(t *testing.T) {
	t.Parallel()
	p, c := newAtProvider(t, nil), testClients()["native"]
	late := p.newBrowser()
	late.choose("company", asks(c))
	back := late.leave(p.company)
	p.signsOutEverywhere()
	mustShowPage(t, late.open(back.String()), http.StatusBadRequest)
	if late.live() {
		t.Error("a sign-in that began before the logout is in")
	}
	p.clock.advance(time.Second)
	b := p.newBrowser()
	b.arrive(p.company, "company", asks(c))
	if !b.live() {
		t.Error("a sign-in that began after the logout is not in")
	}
	b = p.newBrowser()
	b.choose("company", asks(c))
	back = b.leave(p.company)
	done := p.meanwhile("session", p.signsOutEverywhere)
	mustShowPage(t, b.open(back.String()), http.StatusBadRequest)
	done()
	if b.live() {
		t.Error("a session that was about to be stored goes on")
	}
}

// TestLogoutEverywhereWhileEndingOthers: nor does a session go on under another cookie whose person ends
// all others at that moment.
func TestLogoutEverywhereWhileEndingOthers(t *testing.T) {
	t.Parallel()
	p := newAtProvider(t, nil)
	b := p.newBrowser()
	b.arrive(p.company, "company", asks(testClients()["native"]))
	p.clock.advance(time.Minute)
	b.open(p.issuer + "/account/sessions")
	done := p.meanwhile("session", p.signsOutEverywhere)
	mustShowPage(t, b.submit("end-others", "yes"), http.StatusBadRequest)
	done()
	if b.live() {
		t.Error("the session goes on after a logout in between")
	}
}
