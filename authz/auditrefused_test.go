package authz_test

import (
	"net/http"
	"strings"
	"testing"

	"gatehouse.example/audit"
	"gatehouse.example/authz"
	"gatehouse.example/authz/admin"
)

// TestRefusalsNameWhatIsProven: a refusal names the person, the client and the grant where a genuine
// token, a code with its verifier or a session proves them, and not where somebody only names them.
func TestRefusalsNameWhatIsProven(t *testing.T) {
	t.Parallel()
	h, trail := audited(t)
	c, other := testClients()["native"], testClients()["other"]
	person := audit.Person(h.subjectOf(personName))
	last := func() audit.Event {
		all := trail.taken()
		return all[len(all)-1]
	}
	want := func(what, code string, person audit.Person, client, grant string) {
		t.Helper()
		e := last()
		if e.Kind != audit.Refused || string(e.Code) != code || e.Person != person || string(e.Client) != client || string(e.Grant) != grant {
			t.Errorf("%s is %+v; want %s, the person %q, the client %q, the grant %q", what, e, code, person, client, grant)
		}
	}
	held := h.tokens(c)
	g := h.grantOfToken(held.refresh).ID
	h.toToken(c, replaced(refreshing(c, held.refresh), "scope", "notes:none"))
	want("a scope beyond the grant", "invalid_scope", person, c.ID, g)
	h.toToken(other, refreshing(other, held.refresh))
	want("a token of another client", "invalid_grant", person, other.ID, g)
	h.toToken(c, refreshing(c, held.refresh[:len(held.refresh)-4]+"AAAA"))
	want("a forged token", "invalid_grant", "", c.ID, "")
	h.revoke(c, held.refresh)
	h.toToken(c, refreshing(c, held.refresh))
	want("a token of a revoked grant", "invalid_grant", person, c.ID, g)
	h.toToken(c, refreshing(c, held.refresh[:len(held.refresh)-4]+"AAAA"))
	want("a forged token of a revoked grant", "invalid_grant", "", c.ID, "")
	again := h.newBrowser().code(asks(c))
	h.toToken(c, replaced(redemption(c, again), "code_verifier", strings.Repeat("v", 43)))
	want("a code with another verifier", "invalid_grant", "", c.ID, "")
	h.toToken(c, replaced(redemption(c, again), "resource", tasks))
	if e := last(); e.Code != "invalid_target" || e.Person != person || e.Grant == "" {
		t.Errorf("a code for another resource is %+v", e)
	}

	b := h.newBrowser().atConsent(personName)
	b.submit("decision", "deny")
	want("what the person declines", "access_denied", person, c.ID, "")
	b = h.newBrowser().atConsent(personName)
	disable := func(op, key string) {
		if op == "put" && strings.HasPrefix(key, "gatehouse:grant:") {
			h.meter.after.Store(nil)
			if err := admin.DisableUser(t.Context(), h.store, personName); err != nil {
				t.Error(err)
			}
		}
	}
	h.meter.after.Store(&disable)
	if r := b.submit("decision", "allow"); r.status != http.StatusBadRequest {
		t.Errorf("a person who is disabled while consenting: %s", r)
	}
	if e := last(); e.Kind != audit.Refused || e.Person != person || e.Client != audit.Client(c.ID) || e.Grant == "" {
		t.Errorf("a consent of a disabled person is %+v", e)
	}
}

// TestRefusalOfWhatIsNotOpenToThePerson: it names the person and the client.
func TestRefusalOfWhatIsNotOpenToThePerson(t *testing.T) {
	t.Parallel()
	trail := &events{}
	h := newHarness(t, setup{config: func(c *authz.Config) {
		c.Audit = trail.record
		c.Resources[0].Allow = authz.Allow{People: []string{"somebody-else"}}
	}})
	b := h.newBrowser().atConsent(personName)
	if !strings.Contains(b.last.body, "<html") {
		t.Fatalf("%s", b.last)
	}
	all := trail.taken()
	e := all[len(all)-1]
	if e.Kind != audit.Refused || e.Code != "access_denied" || e.Person != audit.Person(h.subjectOf(personName)) || e.Client != audit.Client(testClients()["native"].ID) {
		t.Errorf("it is %+v", e)
	}
}
