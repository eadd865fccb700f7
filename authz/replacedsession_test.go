package authz_test

import (
	"testing"
	"time"

	"gatehouse.example/audit"
)

// TestReplacedPersonIsSignedOut: who signs in with the browser of another person ends that person's
// session, and the trail says so. One's own session is renewed, and one that is over, or ended with all others
// of its person, has ended before.
func TestReplacedPersonIsSignedOut(t *testing.T) {
	t.Parallel()
	h, trail := audited(t)
	h.addPerson("writer")
	b := h.signedInAt("/account/password")
	again := func(name string) reply {
		t.Helper()
		h.clock.advance(time.Hour)
		request := asks(testClients()["native"])
		request.Set("prompt", "login")
		b.open(h.issuer + "/authorize?" + request.Encode())
		b.follow()
		trail.taken()
		return b.submit("username", name, "password", personPassword)
	}
	mustSignIn(t, "the same person", again(personName))
	trail.want(t, "the same person", audit.SignedIn)
	mustSignIn(t, "another person", again("writer"))
	e := trail.want(t, "another person", audit.SignedOut, audit.SignedIn)
	if e[0].Person != audit.Person(h.subject()) || e[0].How != "replaced" || e[1].Person != audit.Person(h.subjectOf("writer")) {
		t.Errorf("another person: %+v", e)
	}
	writer, err := h.store.User(t.Context(), "writer")
	h.must(err)
	writer.SessionEpoch++
	h.must(h.store.UpdateUser(t.Context(), writer))
	mustSignIn(t, "after the end of all", again(personName))
	trail.want(t, "after the end of all", audit.SignedIn)
	mustSignIn(t, "another person again", again("writer"))
	trail.taken()
	h.cfg.SessionIdle = 30 * time.Minute // its record would live for longer
	h.restart()
	mustSignIn(t, "after the end", again(personName))
	trail.want(t, "after the end", audit.SignedIn)
}
