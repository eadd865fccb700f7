package authz_test

import (
	"net/http"
	"slices"
	"testing"

	"gatehouse.example/audit"
)

// TestEachEndIsInTheTrail: who ends the session of this browser in the list of all is signed out, as with the
// button, and new recovery codes are a change of the person.
func TestEachEndIsInTheTrail(t *testing.T) {
	t.Parallel()
	h, trail := audited(t)
	b, _, _ := h.withFactor()
	b.open(h.issuer + "/account/second-factor")
	trail.taken()
	b.submit("do", "recovery")
	if e := trail.want(t, "new recovery codes", audit.PersonChanged)[0]; e.How != "recovery-codes-renewed" || e.Person != audit.Person(h.subject()) {
		t.Errorf("new recovery codes: %+v", e)
	}
	h.wantEvent(b, "New recovery codes were made.")
	page := b.account(personName, "/account/sessions")
	trail.taken()
	b.push(page, "/account/sessions", "end", page.buttons("end")[0])
	if e := trail.want(t, "the session of this browser", audit.SignedOut)[0]; e.Person != audit.Person(h.subject()) || e.How != "" {
		t.Errorf("the session of this browser: %+v", e)
	}
	if b.signedIn() {
		t.Error("the session of this browser goes on")
	}
}

// TestEndInPartsIsInTheTrail: of all grants those that ended are recorded when some are left, and the list
// of the person says that all have ended when they have.
func TestEndInPartsIsInTheTrail(t *testing.T) {
	t.Parallel()
	h, trail := audited(t)
	for range 30 {
		h.addGrant(h.person(), "native-client", notes)
	}
	b := h.newBrowser()
	page := b.account(personName, "/account/applications/end-all")
	trail.taken()
	puts := h.faults.Puts()
	down := func(op, _ string) {
		if op == "put" && h.faults.Puts()-puts > 10 {
			h.faults.SetDown(true)
		}
	}
	h.meter.before.Store(&down)
	mustShow(t, b.push(page, "/account/applications/end-all", "end-all", "yes"), http.StatusServiceUnavailable, "temporarily_unavailable")
	h.meter.before.Store(nil)
	h.faults.SetDown(false)
	if e := trail.want(t, "some have ended", audit.GrantRevoked, audit.Refused)[0]; e.How != "in-part" || e.Person != audit.Person(h.subject()) {
		t.Errorf("some have ended: %+v", e)
	}
	if got := h.happened(personName); len(got) > 0 {
		t.Errorf("what happened before all have ended: %q", got)
	}
	b.push(page, "/account/applications/end-all", "end-all", "yes")
	if e := trail.want(t, "all have ended", audit.GrantRevoked)[0]; e.How != "applications-ended" {
		t.Errorf("all have ended: %+v", e)
	}
	if got := h.happened(personName); !slices.Equal(got, []string{"applications-ended"}) {
		t.Errorf("what happened: %q", got)
	}
}
