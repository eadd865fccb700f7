package authz_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"gatehouse.example/audit"
	"gatehouse.example/authz"
)

// events keeps what a server tells its audit trail.
type events struct {
	mu  sync.Mutex
	all []audit.Event
}

func (e *events) record(one audit.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, one)
}

// taken returns the events since the last call.
func (e *events) taken() []audit.Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := e.all
	e.all = nil
	return out
}

func audited(t *testing.T) (*harness, *events) {
	t.Helper()
	trail := &events{}
	h := newHarness(t, setup{config: func(c *authz.Config) { c.Audit = trail.record }})
	first := trail.taken()
	if len(first) == 0 || first[len(first)-1].Kind != audit.KeyChanged || first[len(first)-1].How != "active" {
		t.Errorf("the first server of an issuer records %+v, and no key", first)
	}
	return h, trail
}

// want compares the kinds of events since the last call, and returns the events.
func (e *events) want(t *testing.T, what string, kinds ...audit.Kind) []audit.Event {
	t.Helper()
	got := e.taken()
	var seen []audit.Kind
	for _, one := range got {
		seen = append(seen, one.Kind)
	}
	if !slices.Equal(seen, kinds) {
		t.Fatalf("%s: %v, want %v", what, seen, kinds)
	}
	return got
}

// TestAuditOfAGrant: each thing that happens to a grant is recorded once, with what joins it to
// the other events: its person, client and grant, the id of the access token, and the request.
func TestAuditOfAGrant(t *testing.T) {
	t.Parallel()
	h, trail := audited(t)
	c := testClients()["native"]
	held := h.tokens(c)
	flow := trail.want(t, "a code flow", audit.SignedIn, audit.Consented, audit.TokenIssued)
	g, person := h.grantOfToken(held.refresh), audit.Person(h.subjectOf(personName))
	for _, e := range flow[1:] {
		if e.Person != person || e.Client != audit.Client(c.ID) || e.Grant != audit.Grant(g.ID) || !slices.Contains(e.Resources, notes) || len(e.Scopes) == 0 {
			t.Errorf("an event of the grant is %+v", e)
		}
	}
	in := claims(t, held.access)
	if flow[0].Person != person || flow[0].How != "password" || flow[2].Token == "" || string(flow[2].Token) != in["jti"] || in["gid"] != g.ID {
		t.Errorf("the events are %+v, the token has %v", flow, in)
	}
	for _, e := range flow {
		if e.Request == "" || !e.Network.IsValid() || !e.Time.Equal(h.clock.Now()) || e.By == "" {
			t.Errorf("an event is %+v", e)
		}
	}
	next := h.toToken(c, refreshing(c, held.refresh)).member(t, "refresh_token")
	if e := trail.want(t, "a refresh", audit.TokenRefreshed)[0]; e.Token == "" || e.Token == flow[2].Token || e.Grant != audit.Grant(g.ID) {
		t.Errorf("a refresh is %+v", e)
	}
	h.toToken(c, refreshing(c, held.refresh))
	trail.want(t, "a refresh that is sent again", audit.RefreshRepeated, audit.TokenRefreshed)
	h.toToken(c, refreshing(c, next))
	trail.taken()
	h.toToken(c, refreshing(c, held.refresh))
	if e := trail.want(t, "an old refresh token", audit.RefreshReused, audit.Refused); e[1].Code != "invalid_grant" || e[1].Client != audit.Client(c.ID) || e[1].How != "/token" || e[0].Grant != audit.Grant(g.ID) {
		t.Errorf("an old refresh token is %+v", e)
	}
	again := h.tokens(c)
	trail.taken()
	h.toToken(c, redemption(c, again.code))
	trail.want(t, "a code that was used", audit.CodeReused, audit.Refused)
	third := h.tokens(c)
	trail.taken()
	h.revoke(c, third.refresh)
	if e := trail.want(t, "a revocation", audit.GrantRevoked)[0]; e.By != audit.ByClient || e.Person != person || e.Grant == "" {
		t.Errorf("a revocation is %+v", e)
	}
	h.revoke(c, h.tokens(c).access)
	if e := trail.taken(); e[len(e)-1].Kind != audit.ResourceEnded || e[len(e)-1].Resources[0] != notes || e[len(e)-1].Person != person {
		t.Errorf("a resource that is given up is %+v", e)
	}
}

// TestAuditOfPeopleAndClients: what people and clients do without a grant, and what they are
// refused.
func TestAuditOfPeopleAndClients(t *testing.T) {
	t.Parallel()
	h, trail := audited(t)
	b := h.newBrowser().atConsent(personName)
	trail.want(t, "a sign-in", audit.SignedIn)
	b.submit("decision", "deny")
	trail.want(t, "a refusal by the person", audit.Denied, audit.Refused)
	b = h.newBrowser().atConsent(personName)
	trail.taken()
	b.press("sign-out")
	trail.want(t, "a sign-out", audit.SignedOut)
	for name, person := range map[string]audit.Person{personName: audit.Person(h.subjectOf(personName)), "nobody": ""} {
		at := h.atSignIn()
		trail.taken()
		at.submit("username", name, "password", "a wrong password")
		if e := trail.want(t, "a wrong password", audit.SignInRefused)[0]; e.Person != person || e.How != "password" {
			t.Errorf("a wrong password of %s is %+v", name, e)
		}
	}
	answer := h.registration(`{"redirect_uris": ["http://127.0.0.1/callback"], "token_endpoint_auth_method": "none"}`)
	id, token := answer.member(t, "client_id"), answer.member(t, "registration_access_token")
	if e := trail.want(t, "a registration", audit.ClientRegistered)[0]; e.Client != audit.Client(id) || e.How != "open" || e.By != audit.ByClient {
		t.Errorf("a registration is %+v", e)
	}
	r := h.newRequest(http.MethodDelete, "/register/"+id, nil)
	r.Header.Set("Authorization", "Bearer "+token)
	h.send(r)
	trail.want(t, "the end of a registration", audit.ClientRemoved)
	h.send(h.newRequest(http.MethodDelete, "/register/"+id, nil))
	if e := trail.want(t, "another one", audit.Refused)[0]; e.Code != "invalid_token" || e.How != "/register/{id}" || e.Client != "" {
		t.Errorf("a refusal is %+v", e)
	}
}

// TestAuditHasNoSecret: no token, code or password of a flow is in an event.
func TestAuditHasNoSecret(t *testing.T) {
	t.Parallel()
	h, trail := audited(t)
	c := testClients()["native"]
	held := h.tokens(c)
	next := h.toToken(c, refreshing(c, held.refresh)).member(t, "refresh_token")
	h.toToken(c, redemption(c, held.code))
	text, err := json.Marshal(trail.taken())
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{held.access, held.refresh, held.code, next, personPassword, strings.Split(held.access, ".")[2]} {
		if strings.Contains(string(text), secret) {
			t.Errorf("the events have the secret %s: %s", secret, text)
		}
	}
}
