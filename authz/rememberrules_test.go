package authz_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gatehouse.example/authz"
	"gatehouse.example/dcr"
	"gatehouse.example/storage"
)

// TestRememberedPlaces: a decision is for one destination, with its port, and for what the client
// stated then. A wider decision for another destination, an older statement, or a time that is over
// counts for nothing beside it.
func TestRememberedPlaces(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{config: func(c *authz.Config) { c.SessionIdle, c.SessionMax = 40*24*time.Hour, 30*24*time.Hour }})
	c := testClients()["web"]
	const here, there = "https://client.example.org/callback", "https://client.example.org:8443/callback"
	h.changeClient(c.ID, func(c *storage.Client) { c.Metadata.RedirectURIs = []string{here, there} })
	stored, err := h.store.Client(t.Context(), c.ID)
	h.must(err)
	at := h.clock.Now()
	access := func(scopes ...string) storage.Access { return storage.Access{{Resource: notes, Scopes: scopes}} }
	wide, narrow := access("notes:read", "notes:write"), access("notes:read")
	given := func(host, digest string, a storage.Access, until time.Time) storage.Remembered {
		return storage.Remembered{RedirectHost: host, ClientDigest: digest, Access: a, At: at.Add(-time.Hour), Until: until}
	}
	now, always := dcr.Digest(stored), time.Time{}
	request := func(redirect string) string {
		b := h.newBrowser()
		b.signInForAccount(personName)
		return b.unasked(replaced(asks(c), "redirect_uri", redirect, "scope", "notes:read notes:write"))
	}
	const hostHere, hostThere = "client.example.org", "client.example.org:8443"
	for name, tt := range map[string]struct {
		given    []storage.Remembered
		redirect string
		want     string
	}{
		"here":                 {[]storage.Remembered{given(hostHere, now, wide, always)}, here, "code"},
		"on the port":          {[]storage.Remembered{given(hostThere, now, wide, always)}, there, "code"},
		"without the port":     {[]storage.Remembered{given(hostHere, now, wide, always)}, there, "consent_required"},
		"wide elsewhere":       {[]storage.Remembered{given(hostThere, now, wide, always), given(hostHere, now, narrow, always)}, here, "consent_required"},
		"wide before a change": {[]storage.Remembered{given(hostHere, "before", wide, always), given(hostHere, now, narrow, always)}, here, "consent_required"},
		"wide until now":       {[]storage.Remembered{given(hostHere, now, wide, at), given(hostHere, now, narrow, always)}, here, "consent_required"},
		"wide until later":     {[]storage.Remembered{given(hostHere, now, wide, at.Add(time.Second)), given(hostHere, now, narrow, always)}, here, "code"},
	} {
		h.must(h.store.DeleteConsent(t.Context(), h.subject(), c.ID))
		h.must(h.store.PutConsent(t.Context(), storage.Consent{Subject: h.subject(), ClientID: c.ID, Given: tt.given}))
		if got := request(tt.redirect); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

// TestRememberedResourceIsAnother: what was remembered about a resource that was removed says nothing
// about one that was added in its place.
func TestRememberedResourceIsAnother(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{}), testClients()["web"]
	wiki := wikiResource()
	request := replaced(asks(c), "resource", wiki.URI, "scope", "wiki:read")
	add := func() {
		h.add(authz.NewResource{Resource: wiki})
		h.clock.advance(seen)
	}
	add()
	b := h.newBrowser()
	b.decide(request, "always")
	if got := b.unasked(request); got != "code" {
		t.Errorf("remembered: %s", got)
	}
	h.remove(wiki.URI)
	add()
	if got := b.unasked(request); got != "consent_required" {
		t.Errorf("another resource in its place: %s", got)
	}
}

// TestRememberedAgainAtOnce: who is asked because a decision is over can have the next one remembered, also in
// the minute in which the record of the first is still there.
func TestRememberedAgainAtOnce(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{config: func(c *authz.Config) { c.SessionIdle, c.SessionMax = 40*24*time.Hour, 30*24*time.Hour }})
	request := asks(testClients()["web"])
	b := h.newBrowser()
	for _, when := range []string{"the first time", "when that is over"} {
		b.decide(request, "day")
		if got := b.unasked(request); got != "code" {
			t.Errorf("remembered %s: %s", when, got)
		}
		h.clock.advance(24 * time.Hour)
		if got := b.unasked(request); got != "consent_required" {
			t.Errorf("a day after what was remembered %s: %s", when, got)
		}
	}
}

// TestPreApprovedIsForTheNamedClient: an approval is for the client that it names, and gives nothing
// to a person who may have nothing.
func TestPreApprovedIsForTheNamedClient(t *testing.T) {
	t.Parallel()
	basic, post := testClients()["basic"], testClients()["post"]
	h := newHarness(t, setup{config: func(c *authz.Config) {
		c.PreApproved = []authz.PreApproval{{ClientID: basic.ID, Resource: notes, Scopes: []string{"notes:read"}}}
	}})
	b := h.newBrowser()
	b.signInForAccount(personName)
	b.open(h.issuer + "/authorize?" + replaced(asks(post), "scope", "notes:read").Encode())
	wantOn(t, "another client that the operator vouches for", b.follow(), `type="checkbox"`)
	h.cfg.Resources[0].Allow = authz.Allow{People: []string{"writer"}}
	h.restart()
	b.open(h.issuer + "/authorize?" + replaced(asks(basic), "scope", "notes:read").Encode())
	mustShow(t, b.follow(), http.StatusForbidden, "access_denied")
	if r := b.submit("decision", "allow"); r.status == http.StatusSeeOther {
		t.Errorf("somebody who may have nothing: %s", r)
	}
}

// TestChoicesOfRemembering: the page offers the configured times in whole days, else in hours, and a
// configuration of others is refused.
func TestChoicesOfRemembering(t *testing.T) {
	t.Parallel()
	c := testClients()["web"]
	h := newHarness(t, setup{config: func(c *authz.Config) {
		c.ConsentRemember = []time.Duration{time.Hour, 24 * time.Hour, 36 * time.Hour, 365 * 24 * time.Hour, authz.RememberAlways}
	}})
	b := h.newBrowser()
	b.signInForAccount(personName)
	b.open(h.issuer + "/authorize?" + asks(c).Encode())
	wantOn(t, "the choices", b.follow(), `value="1h"`, "After an hour", `value="day"`, "After a day", `value="36h"`, "36 hours", `value="365d"`, "365 days", `value="always"`, "Only when I take this back")
	for _, wrong := range [][]time.Duration{{time.Hour - time.Second}, {time.Hour / 2}, {366 * 24 * time.Hour}, {90 * time.Minute}, {time.Hour, time.Hour}, {-time.Hour}} {
		cfg := h.cfg
		cfg.ConsentRemember = wrong
		if _, err := authz.New(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "consent-remember") {
			t.Errorf("%v: %v", wrong, err)
		}
	}
}

// TestUnaskedShareIsOfOnePerson: a person whose requests are asked about again takes nothing from
// another person.
func TestUnaskedShareIsOfOnePerson(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{}), testClients()["web"]
	h.addPerson("writer")
	one, other := h.newBrowser(), h.newBrowser()
	one.decide(asks(c), "always")
	other.signInForAccount("writer")
	other.decide(asks(c), "always")
	for n := 0; n < 200 && one.unasked(asks(c)) == "code"; n++ {
	}
	if got := other.unasked(asks(c)); got != "code" {
		t.Errorf("another person: %s", got)
	}
}

// TestForgottenAfterTheSignIn: a consent that is taken back while the way from the sign-in to the
// client is under way leaves no grant, and no transaction either.
func TestForgottenAfterTheSignIn(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{}), testClients()["web"]
	h.newBrowser().decide(asks(c), "always")
	b := h.newBrowser()
	b.open(h.issuer + "/authorize?" + asks(c).Encode())
	b.follow()
	b.submit("username", personName, "password", personPassword)
	consent := b.last.location(t).String()
	h.meter.once(&h.meter.before, "put", "grant", func() { h.must(h.store.DeleteConsent(t.Context(), h.subject(), c.ID)) })
	mustShow(t, b.open(consent), http.StatusBadRequest, "invalid_request")
	h.meter.before.Store(nil)
	mustShow(t, b.open(consent), http.StatusBadRequest, "invalid_request")
	live := 0
	for g, err := range h.store.UserGrants(t.Context(), h.subject()) {
		h.must(err)
		if g.State != storage.GrantRevoked {
			live++
		}
	}
	if live != 1 { // that of the decision
		t.Errorf("%d grants are alive", live)
	}
}

// TestRememberingBesideOthers: a decision that is stored while another one of the same person is, in
// another window, does not replace it. What cannot be stored, or whose grant cannot be read again, is
// not remembered, and the person goes on.
func TestRememberingBesideOthers(t *testing.T) {
	t.Parallel()
	c := testClients()["web"]
	read, write := replaced(asks(c), "scope", "notes:read"), replaced(asks(c), "scope", "notes:write")
	both := map[string]string{"read": "code", "write": "code"}
	none := map[string]string{"read": "consent_required", "write": "consent_required"}
	for name, tt := range map[string]struct {
		hook     func(h *harness) *atomic.Pointer[func(op, key string)]
		op, kind string
		change   func(h *harness)
		want     map[string]string
		logged   string
	}{
		"together": {func(h *harness) *atomic.Pointer[func(op, key string)] { return &h.meter.before }, "put", "consent", func(h *harness) {
			other := h.newBrowser()
			other.decide(write, "always")
		}, both, ""},
		"the store fails": {func(h *harness) *atomic.Pointer[func(op, key string)] { return &h.meter.before }, "put", "consent", func(h *harness) {
			h.faults.LoseRequests(1000)
		}, none, `level=WARN msg="a decision is not remembered" sub=`},
		"the grant cannot be read": {func(h *harness) *atomic.Pointer[func(op, key string)] { return &h.meter.after }, "put", "consent", func(h *harness) {
			h.meter.failReads("grant")
		}, none, `level=WARN msg="a decision is not remembered" sub=`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, setup{}).withDefaultWriteTime()
			b := h.newBrowser()
			hook := tt.hook(h)
			h.meter.once(hook, tt.op, tt.kind, func() { tt.change(h) })
			b.decide(read, "always")
			hook.Store(nil)
			h.faults.LoseRequests(0)
			h.meter.failReads("")
			got := map[string]string{"read": b.unasked(read), "write": b.unasked(write)}
			if fmt.Sprint(got) != fmt.Sprint(tt.want) {
				t.Errorf("%v, want %v", got, tt.want)
			}
			h.wantLogged(tt.logged)
		})
	}
}

// TestListsOfDecisionsAreTidied: decisions that were taken back leave nothing in the lists, beside the
// requests. Unticking where nothing is remembered reads nothing more.
func TestListsOfDecisionsAreTidied(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{}), testClients()["web"]
	b := h.newBrowser()
	reads := 0
	count := func(op, key string) {
		if op == "get" && strings.HasPrefix(key, "gatehouse:consent:") {
			reads++
		}
	}
	h.meter.before.Store(&count)
	b.decide(replaced(asks(c), "scope", "notes:read notes:write"), "once", "notes:write")
	h.meter.before.Store(nil)
	if reads != 0 {
		t.Errorf("unticking reads what is remembered %d times more", reads)
	}
	for _, gone := range []string{"several", "post", "basic"} {
		b.decide(asks(testClients()[gone]), "always")
		h.must(h.store.DeleteConsent(t.Context(), h.subject(), gone+"-client"))
	}
	h.clock.advance(time.Hour) // until then one of them may be about to be written
	b.decide(asks(c), "always")
	h.handler.Load().DoChores(t.Context())
	n, err := h.meter.IndexLen(t.Context(), "gatehouse:user-consents:"+h.subject())
	if err != nil || n != 1 {
		t.Errorf("%d entries in the list, %v; want 1", n, err)
	}
}
