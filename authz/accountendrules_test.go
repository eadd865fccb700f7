package authz_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"gatehouse.example/storage"
)

// happened returns the events of a person, without sign-ins and what was allowed: "WHAT ABOUT", with
// "×2" behind what happened twice.
func (h *harness) happened(name string) (all []string) {
	h.t.Helper()
	h.handler.Load().DoChores(h.t.Context())
	a, err := h.store.Activity(h.t.Context(), h.subjectOf(name))
	h.must(err)
	for _, e := range a.Events {
		if e.What == "signed-in" || e.What == "application-allowed" {
			continue
		}
		line := strings.TrimSpace(e.What + " " + e.About)
		if e.Times > 1 {
			line += "×2"
		}
		all = append(all, line)
	}
	return all
}

// TestWhatEndedIsOnRecord: what a person ends is on their list once, under the name of the client
// that was ended, or its host if it has none, and in the log. What had ended before is not.
func TestWhatEndedIsOnRecord(t *testing.T) {
	t.Parallel()
	native, web := testClients()["native"], testClients()["web"]
	const nameless = "https://nameless.example.org/client.json"
	for name, tt := range map[string]struct {
		path, button string
		value        func(page reply) string
		happened     []string
		logged       string
	}{
		"one grant": {"/account/applications", "end-grant", func(page reply) string { return page.buttons("end-grant")[0] },
			[]string{"application-ended The native client"}, `msg="grant ended by the person" sub=SUB client=native-client grant=`},
		"a client": {"/account/applications", "end-application", func(reply) string { return native.ID },
			[]string{"application-ended The native client"}, `msg="grants ended by the person" sub=SUB client=native-client ended=2`},
		"a client without a name": {"/account/applications", "end-application", func(reply) string { return nameless },
			[]string{"application-ended nameless.example.org"}, `msg="grants ended by the person" sub=SUB client=` + nameless + " ended=1"},
		"a client that has nothing": {"/account/applications", "end-application", func(reply) string { return "other-client" }, nil, "ended=0"},
		"all": {"/account/applications/end-all", "end-all", func(reply) string { return "yes" },
			[]string{"applications-ended×2"}, `msg="grants ended by the person" sub=SUB client="" ended=4`},
		"all, without saying so": {"/account/applications/end-all", "end-all", func(reply) string { return "perhaps" }, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, setup{})
			b := h.newBrowser()
			for _, c := range []testClient{native, native, web} {
				b.tokens(c, asks(c))
				h.clock.advance(time.Second)
			}
			h.addGrant(h.person(), nameless, notes)
			h.remember(b, web.ID)
			value := tt.value(b.account(personName, "/account/applications"))
			page := b.account(personName, tt.path)
			for range 2 {
				b.push(page, tt.path, tt.button, value)
			}
			if got := h.happened(personName); !slices.Equal(got, tt.happened) {
				t.Errorf("what happened: %q, want %q", got, tt.happened)
			}
			h.wantLogged(strings.ReplaceAll(tt.logged, "SUB", h.subject()))
			if _, err := h.store.Consent(t.Context(), h.subject(), web.ID); (err != nil) != (name == "all") {
				t.Errorf("what is remembered is read with %v", err)
			}
		})
	}
}

// TestRememberedWhileEnding: a decision that is remembered in another window between the two steps of
// an end loses its grant, and the application has to ask again.
func TestRememberedWhileEnding(t *testing.T) {
	t.Parallel()
	web := testClients()["web"]
	for name, form := range map[string][3]string{
		"a client": {"/account/applications", "end-application", web.ID},
		"all":      {"/account/applications/end-all", "end-all", "yes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, setup{})
			b, other := h.newBrowser(), h.newBrowser()
			other.account(personName, "/account")
			b.tokens(web, asks(web))
			h.remember(b, web.ID)
			page := b.account(personName, form[0])
			h.meter.once(&h.meter.after, "delete", "consent", func() { other.decide(asks(web), "always") })
			answer := b.push(page, form[0], form[1], form[2])
			h.meter.after.Store(nil)
			if answer.status != http.StatusOK {
				t.Fatal(answer)
			}
			for g, err := range h.store.UserGrants(t.Context(), h.subject()) {
				if h.must(err); g.State != storage.GrantRevoked {
					t.Errorf("a grant is %s", g.State)
				}
			}
			if got := other.unasked(asks(web)); got != "consent_required" {
				t.Errorf("then %s", got)
			}
		})
	}
}

// TestEndAllBesideADamagedDecision: a remembered decision that cannot be read keeps nothing alive, and the
// application has to ask again.
func TestEndAllBesideADamagedDecision(t *testing.T) {
	t.Parallel()
	h, web := newHarness(t, setup{}), testClients()["web"]
	b := h.newBrowser()
	held := b.tokens(web, asks(web))
	h.remember(b, web.ID)
	page := b.account(personName, "/account/applications/end-all")
	h.damage(h.only("consent"))
	if answer := b.push(page, "/account/applications/end-all", "end-all", "yes"); answer.status != http.StatusOK {
		t.Errorf("ending all: %s", answer)
	}
	if h.active(held.access) {
		t.Error("the grant goes on")
	}
	if got := b.unasked(asks(web)); got != "consent_required" {
		t.Errorf("then %s", got)
	}
}

// TestEndWhileTheStoreFails: where the store fails in the middle, the page does not say that
// anything is done, and what has to go first is gone first: nothing is forgotten after grants ended.
func TestEndWhileTheStoreFails(t *testing.T) {
	t.Parallel()
	c := testClients()["native"]
	for name, tt := range map[string]struct{ path, button, value, op, kind string }{
		"a grant":        {"/account/applications", "end-grant", "", "put", "grant"},
		"a client":       {"/account/applications", "end-application", c.ID, "delete", "consent"},
		"all":            {"/account/applications/end-all", "end-all", "yes", "delete", "consent"},
		"a decision":     {"/account/remembered", "forget", c.ID, "delete", "consent"},
		"a session":      {"/account/sessions", "end", "", "delete", "session"},
		"all the others": {"/account/sessions", "end-others", "yes", "put", "user"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, setup{})
			b, elsewhere := h.newBrowser(), h.newBrowser()
			held := b.tokens(c, asks(c))
			b.tokens(c, asks(c))
			h.clock.advance(time.Second)
			elsewhere.account(personName, "/account")
			h.remember(b, c.ID)
			page := b.account(personName, tt.path)
			value := tt.value
			if value == "" {
				buttons := page.buttons(tt.button)
				value = buttons[len(buttons)-1]
				if tt.button == "end" {
					value = h.sessions()[1].ID()
				}
			}
			h.meter.once(&h.meter.before, tt.op, tt.kind, func() { h.faults.SetDown(true) })
			answer := b.push(page, tt.path, tt.button, value)
			h.meter.before.Store(nil)
			h.faults.SetDown(false)
			mustShow(t, answer, http.StatusServiceUnavailable, "temporarily_unavailable")
			wantOn(t, name, answer, "It is not certain that this is done", "end again what is still there")
			if !h.active(held.access) || !elsewhere.signedIn() {
				t.Error("something ended")
			}
			if got := h.happened(personName); len(got) != 0 {
				t.Errorf("what happened: %q", got)
			}
			if answer = b.push(page, tt.path, tt.button, value); answer.status != http.StatusOK {
				t.Errorf("again: %s", answer)
			}
		})
	}
}

// TestEndedSessions: what a person ends is in the log, and sessions that are over are not listed. Those
// that ended with all others are removed beside the requests, whether another one can be read or not.
func TestEndedSessions(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	me := h.newBrowser()
	for range 3 {
		h.newBrowser().account(personName, "/account")
		h.clock.advance(time.Second)
	}
	me.account(personName, "/account")
	all := h.sessions()
	idle := all[0]
	idle.Seen, idle.AuthTime = h.clock.Now().Add(-1000*time.Hour), h.clock.Now().Add(-1000*time.Hour)
	h.must(h.store.UpdateSession(t.Context(), idle))
	page := me.account(personName, "/account/sessions")
	if listed := page.buttons("end"); len(listed) != 3 || slices.Contains(listed, idle.ID()) {
		t.Errorf("a session that is over is listed: %q", listed)
	}
	me.push(page, "/account/sessions", "end", all[1].ID())
	h.wantLogged(`msg="session ended by the person" user=reader sub=` + h.subject())
	h.damageSessions(func(s storage.Session) bool { return s.ID() == all[2].ID() })
	me.push(page, "/account/sessions", "end-others", "yes")
	h.wantLogged(`msg="other sessions ended by the person" user=reader sub=` + h.subject())
	h.handler.Load().DoChores(t.Context())
	left, _, err := h.meter.Scan(t.Context(), "gatehouse:session:", "", 10)
	if err != nil || len(left) != 2 { // the damaged one and the new one
		t.Errorf("%q are stored, %v", left, err)
	}
	if strings.Contains(h.log.String(), "level=WARN") {
		t.Errorf("removing what ended is not possible:\n%s", h.log)
	}
}
