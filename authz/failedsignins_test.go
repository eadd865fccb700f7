package authz_test

import (
	"net/http"
	"testing"

	"gatehouse.example/audit"
	"gatehouse.example/authz/admin"
)

// failedFor returns how many failed sign-ins wait to be shown to the person of the tests.
func (h *harness) failedFor(name string) int {
	h.t.Helper()
	h.handler.Load().DoChores(h.t.Context())
	a, err := h.store.Activity(h.t.Context(), h.subjectOf(name))
	h.must(err)
	return a.Refused.Count
}

// TestEachFailedSignInCounts: a wrong password, code and passkey, and a wrong password on the page that
// changes it, are in the audit trail with the person, and each counts once on the person's page.
func TestEachFailedSignInCounts(t *testing.T) {
	t.Parallel()
	for _, failed := range []struct {
		what, how string
		fail      func(*harness) reply
	}{
		{"a password", "password", func(h *harness) reply { return h.atSignIn().submit("username", personName, "password", "wrong") }},
		{"a code", "code", func(h *harness) reply {
			h.withFactor()
			return h.atCode().submit("code", "000000")
		}},
		{"a passkey", "passkey", func(h *harness) reply {
			_, k := h.withPasskey()
			k.at.Origin = "https://evil.example.org"
			return h.atSignIn().answer(k, nil)
		}},
		{"the current password", "password", func(h *harness) reply {
			return h.signedInAt("/account/password").submit("current", "not it", "new", "a new password")
		}},
	} {
		h, trail := audited(t)
		if r := failed.fail(h); r.status != http.StatusForbidden {
			t.Fatalf("%s: %s", failed.what, r)
		}
		var refused []audit.Event
		for _, e := range trail.taken() {
			if e.Kind == audit.SignInRefused {
				refused = append(refused, e)
			}
		}
		if len(refused) != 1 || refused[0].Person != audit.Person(h.subject()) || string(refused[0].How) != failed.how {
			t.Errorf("%s: the trail has %+v", failed.what, refused)
		}
		if n := h.failedFor(personName); n != 1 {
			t.Errorf("%s: %d failed sign-ins are shown", failed.what, n)
		}
	}
}

// TestLimitsOnCodesAreOfThePerson: wrong codes of a person who was removed do not limit the next person of
// that name, and those of a person do.
func TestLimitsOnCodesAreOfThePerson(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	_, app, _ := h.withFactor()
	b := h.atCode()
	page := b.page
	for tries := 0; b.submit("code", "000000").status != http.StatusTooManyRequests; tries++ {
		if b.page = page; tries > 40 {
			t.Fatal("codes are not limited")
		}
	}
	b.page = page
	mustWait(t, "the same person", withSeconds(b.submit("code", app.code())))
	h.must(admin.RemoveUser(t.Context(), h.store, personName))
	h.addPerson(personName)
	_, app, _ = h.withFactor()
	b = h.atCode()
	page = b.page
	for range 5 { // more than the limit of the other person lets through again in the meantime
		wantRefusal(t, "a wrong code of the next person", b.submit("code", "000000"), http.StatusForbidden, "not right")
		b.page = page
	}
	mustSignIn(t, "the next person", b.submit("code", app.code()))
}
