package authz_test

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gatehouse.example/authz"
	"gatehouse.example/authz/admin"
	"gatehouse.example/dcr"
	"gatehouse.example/storage"
)

// decide walks to the consent page, unticks scopes, and allows with a choice how long that is
// remembered.
func (b *browser) decide(request url.Values, remember string, untick ...string) reply {
	b.h.t.Helper()
	b.open(b.h.issuer + "/authorize?" + request.Encode())
	for range 4 {
		switch {
		case b.last.status == http.StatusSeeOther && strings.HasPrefix(b.last.header.Get("Location"), b.h.issuer+"/"):
			b.follow()
		case strings.Contains(b.last.body, `name="password"`):
			b.submit("username", personName, "password", personPassword)
		}
	}
	_, values := b.page.inputs(b.h.t)
	pairs := []string{"decision", "allow", "remember", remember, "scope", ""}
	for _, scope := range values["scope"] {
		kept := true
		for _, name := range untick {
			kept = kept && scope != name
		}
		if kept {
			pairs = append(pairs, "scope", scope)
		}
	}
	answer := b.submit(pairs...)
	if answer.location(b.h.t).Query().Get("code") == "" {
		b.h.t.Fatalf("no code: %s", answer)
	}
	return answer
}

// unasked sends a request with prompt=none and returns the error, or "code".
func (b *browser) unasked(request url.Values) string {
	b.h.t.Helper()
	answer := b.open(b.h.issuer + "/authorize?" + replaced(maps.Clone(request), "prompt", "none").Encode())
	if answer.status != http.StatusSeeOther {
		for _, code := range []string{"login_required", "consent_required", "interaction_required"} {
			if strings.Contains(answer.body, code) {
				return code
			}
		}
		return answer.body
	}
	q := answer.location(b.h.t).Query()
	if q.Get("code") != "" {
		return "code"
	}
	return q.Get("error")
}

func (h *harness) subject() string {
	h.t.Helper()
	user, err := h.store.User(h.t.Context(), personName)
	if err != nil {
		h.t.Fatal(err)
	}
	return user.Subject
}

// TestRememberedProduct: a decision that is remembered answers requests for no more, from the same
// client as it was, with an answer to the same host. Everything else is asked.
func TestRememberedProduct(t *testing.T) {
	t.Parallel()
	web := testClients()["web"]
	both := func() url.Values { return replaced(asks(web), "scope", "notes:read notes:write") }
	read := func() url.Values { return replaced(asks(web), "scope", "notes:read") }
	two := func() url.Values {
		v := replaced(asks(web), "scope", "notes:read tasks:read")
		v.Add("resource", tasks)
		return v
	}
	for name, tt := range map[string]struct {
		first    url.Values
		remember string
		untick   []string
		change   func(*harness)
		then     url.Values
		want     string
	}{
		"the same":                    {first: both(), remember: "always", then: both(), want: "code"},
		"less":                        {first: both(), remember: "always", then: read(), want: "code"},
		"more":                        {first: read(), remember: "always", then: both(), want: "consent_required"},
		"not remembered":              {first: both(), remember: "once", then: both(), want: "consent_required"},
		"unticked":                    {first: both(), remember: "always", untick: []string{"notes:write"}, then: both(), want: "consent_required"},
		"without the unticked":        {first: both(), remember: "always", untick: []string{"notes:write"}, then: read(), want: "code"},
		"one of two resources":        {first: two(), remember: "always", then: read(), want: "code"},
		"two resources, one unticked": {first: two(), remember: "always", untick: []string{tasks + " tasks:read"}, then: two(), want: "consent_required"},
		"two resources":               {first: two(), remember: "always", then: two(), want: "code"},
		"a second resource":           {first: read(), remember: "always", then: two(), want: "consent_required"},
		"just before its end":         {first: both(), remember: "day", change: func(h *harness) { h.clock.advance(24*time.Hour - time.Second) }, then: both(), want: "code"},
		"at its end":                  {first: both(), remember: "day", change: func(h *harness) { h.clock.advance(24 * time.Hour) }, then: both(), want: "consent_required"},
		"after a month":               {first: both(), remember: "30d", change: func(h *harness) { h.clock.advance(29 * 24 * time.Hour) }, then: both(), want: "code"},
		"another name of the client": {first: both(), remember: "always", change: func(h *harness) {
			h.changeClient(web.ID, func(c *storage.Client) { c.Metadata.ClientName = "Another" })
		}, then: both(), want: "consent_required"},
		"another redirect URI on top": {first: both(), remember: "always", change: func(h *harness) {
			h.changeClient(web.ID, func(c *storage.Client) {
				c.Metadata.RedirectURIs = append(c.Metadata.RedirectURIs, "https://evil.example.org/callback")
			})
		}, then: replaced(both(), "redirect_uri", "https://evil.example.org/callback"), want: "consent_required"},
		"the person is disabled": {first: both(), remember: "always", change: func(h *harness) { h.must(admin.DisableUser(h.t.Context(), h.store, personName)) },
			then: both(), want: "login_required"},
		"the client is disabled": {first: both(), remember: "always", change: func(h *harness) { h.must(dcr.Disable(h.t.Context(), h.store, web.ID)) },
			then: both(), want: "invalid_client"},
		"taken back": {first: both(), remember: "always", change: func(h *harness) { h.must(h.store.DeleteConsent(h.t.Context(), h.subject(), web.ID)) },
			then: both(), want: "consent_required"},
		"all grants of the person revoked": {first: both(), remember: "always", change: func(h *harness) { h.must(h.store.RevokeUser(h.t.Context(), h.subject(), "test")) },
			then: both(), want: "consent_required"},
		"all grants of the client revoked": {first: both(), remember: "always", change: func(h *harness) { h.must(h.store.RevokeClient(h.t.Context(), web.ID, "test")) },
			then: both(), want: "consent_required"},
		"its grants revoked by the operator": {first: both(), remember: "always", change: func(h *harness) {
			for r, err := range admin.RevokeGrants(h.t.Context(), h.store, admin.GrantFilter{User: personName}) {
				h.must(err)
				_ = r
			}
		}, then: both(), want: "consent_required"},
		"nothing is remembered any more": {first: both(), remember: "always", change: func(h *harness) {
			h.cfg.ConsentRemember = []time.Duration{}
			h.restart()
		}, then: both(), want: "consent_required"},
		"the resource is gone": {first: two(), remember: "always", change: func(h *harness) {
			h.cfg.Resources = h.cfg.Resources[:1]
			h.restart()
		}, then: read(), want: "code"},
		"another process": {first: both(), remember: "always", change: func(h *harness) { h.restart() }, then: both(), want: "code"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, setup{config: func(c *authz.Config) { c.SessionIdle, c.SessionMax = 40*24*time.Hour, 30*24*time.Hour }})
			b := h.newBrowser()
			b.decide(tt.first, tt.remember, tt.untick...)
			if tt.change != nil {
				tt.change(h)
			}
			if got := b.unasked(tt.then); got != tt.want && !(tt.want == "invalid_client" && strings.Contains(got, tt.want)) {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

func (h *harness) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *harness) changeClient(id string, change func(*storage.Client)) {
	h.t.Helper()
	c, err := h.store.Client(h.t.Context(), id)
	h.must(err)
	change(&c)
	h.must(h.store.UpdateClient(h.t.Context(), c))
}

// TestRememberedGrantIsWhatWasAsked: without a page the grant has exactly what was asked for, also
// if more was remembered.
func TestRememberedGrantIsWhatWasAsked(t *testing.T) {
	t.Parallel()
	h, web := newHarness(t, setup{}), testClients()["web"]
	b := h.newBrowser()
	b.decide(replaced(asks(web), "scope", "notes:read notes:write"), "always")
	code := b.open(h.issuer + "/authorize?" + replaced(asks(web), "scope", "notes:read").Encode()).location(t).Query().Get("code")
	answer := h.toToken(web, redemption(web, code))
	if answer.status != http.StatusOK || answer.member(t, "scope") != "notes:read" {
		t.Errorf("%s", answer)
	}
}

// TestUntickedLater: what a person unticks or declines on a later page is not granted without a
// page any more, although it was remembered before. What was ticked still is.
func TestUntickedLater(t *testing.T) {
	t.Parallel()
	h, web := newHarness(t, setup{}), testClients()["web"]
	both, read := replaced(asks(web), "scope", "notes:read notes:write"), replaced(asks(web), "scope", "notes:read")
	b := h.newBrowser()
	b.decide(both, "always")
	b.decide(replaced(asks(web), "scope", "notes:read notes:write", "prompt", "consent"), "once", "notes:write")
	if got := b.unasked(both); got != "consent_required" {
		t.Errorf("what was unticked: %s", got)
	}
	if got := b.unasked(read); got != "code" {
		t.Errorf("what was left: %s", got)
	}
	b.walk(replaced(asks(web), "scope", "notes:read", "prompt", "consent"), "deny")
	if got := b.unasked(read); got != "consent_required" {
		t.Errorf("after declining: %s", got)
	}
}

// TestVouchedLoopback: for a loopback client that the operator vouches for, a decision is remembered
// on whatever port it listens, until it changes what it states about itself. Without that only a
// dangerous setting does it (attack J14).
func TestVouchedLoopback(t *testing.T) {
	t.Parallel()
	c := testClients()["native"]
	on := func(port string) url.Values {
		return replaced(asks(c), "redirect_uri", "http://127.0.0.1:"+port+"/callback")
	}
	h := newHarness(t, setup{})
	h.must(dcr.Vouch(t.Context(), h.store, c.ID, true))
	b := h.newBrowser()
	b.decide(on("1111"), "always")
	if got := b.unasked(on("2222")); got != "code" {
		t.Errorf("another port: %s", got)
	}
	if got := h.newBrowser().unasked(on("1111")); got != "login_required" {
		t.Errorf("another browser: %s", got)
	}
	h.must(dcr.Vouch(t.Context(), h.store, c.ID, false))
	if got := b.unasked(on("1111")); got != "consent_required" {
		t.Errorf("no longer vouched for: %s", got)
	}
	h.must(dcr.Vouch(t.Context(), h.store, c.ID, true))
	h.changeClient(c.ID, func(c *storage.Client) { c.Metadata.ClientName = "Another" })
	b.open(h.issuer + "/authorize?" + on("1111").Encode())
	if page := b.follow(); strings.Contains(page.body, `name="remember"`) {
		t.Error("a client that changed after the operator vouched for it")
	}

	risky := newHarness(t, setup{config: func(c *authz.Config) { c.InsecureRememberUnvouched = true }})
	b = risky.newBrowser()
	b.decide(on("1111"), "always")
	if got := b.unasked(on("2222")); got != "code" {
		t.Errorf("with the dangerous setting: %s", got)
	}
}

// TestRememberedPerPerson: what one person had remembered says nothing about another who signs in
// with the same browser (attack J13), and a client without a decision is asked about (J12).
func TestRememberedPerPerson(t *testing.T) {
	t.Parallel()
	h, web := newHarness(t, setup{}), testClients()["web"]
	h.addPerson("writer")
	b := h.newBrowser()
	b.decide(asks(web), "always")
	if got := b.unasked(asks(testClients()["several"])); got != "consent_required" {
		t.Errorf("another client: %s", got)
	}
	h.clock.advance(time.Second)
	b.open(h.issuer + "/authorize?" + replaced(asks(web), "prompt", "select_account").Encode())
	b.follow()
	b.submit("username", "writer", "password", personPassword)
	if page := b.follow(); page.status != http.StatusOK || !strings.Contains(page.body, `name="decision"`) {
		t.Errorf("another person: %s", page)
	}
	if got := b.unasked(asks(web)); got != "consent_required" {
		t.Errorf("another person: %s", got)
	}
}

// TestForcedPages: with prompt=login, select_account or consent, or max_age=0, the page is shown
// although the decision is remembered, also after the sign-in. With max_age alone it is not.
func TestForcedPages(t *testing.T) {
	t.Parallel()
	h, web := newHarness(t, setup{}), testClients()["web"]
	b := h.newBrowser()
	b.decide(asks(web), "always")
	for _, tt := range []struct {
		name, value string
		page        bool
	}{{"prompt", "login", true}, {"prompt", "select_account", true}, {"prompt", "consent", true}, {"prompt", "login consent", true}, {"max_age", "0", true}, {"max_age", "5", false}, {"login_hint", "somebody", false}} {
		h.clock.advance(10 * time.Second)
		b.open(h.issuer + "/authorize?" + replaced(asks(web), tt.name, tt.value).Encode())
		answer := b.follow()
		if strings.Contains(answer.body, `name="password"`) {
			b.submit("username", personName, "password", personPassword)
			answer = b.follow()
		}
		if shown := strings.Contains(answer.body, `name="decision"`); shown != tt.page || !shown && answer.location(t).Query().Get("code") == "" {
			t.Errorf("%s=%s: %s", tt.name, tt.value, answer)
		}
	}
}

// TestForgottenMeanwhile: a consent that is taken back while a request is answered without a page
// leaves no live grant.
func TestForgottenMeanwhile(t *testing.T) {
	t.Parallel()
	web := testClients()["web"]
	for name, tt := range map[string]struct {
		end    func(h *harness, subject string) error
		status int
	}{
		// Only the second look at the consent notices it.
		"forgotten": {func(h *harness, subject string) error {
			return h.store.DeleteConsent(context.Background(), subject, web.ID)
		}, http.StatusSeeOther},
		"forgotten and revoked": {func(h *harness, subject string) error {
			return h.store.RevokeUser(context.Background(), subject, "test")
		}, http.StatusBadRequest},
	} {
		h := newHarness(t, setup{})
		b := h.newBrowser()
		b.decide(asks(web), "always")
		subject := h.subject()
		h.meter.once(&h.meter.before, "put", "grant", func() { h.must(tt.end(h, subject)) })
		answer := b.open(h.issuer + "/authorize?" + asks(web).Encode())
		h.meter.before.Store(nil)
		if answer.status != tt.status || tt.status == http.StatusSeeOther && !strings.HasPrefix(answer.location(t).String(), h.issuer+"/consent") {
			t.Errorf("%s: %s", name, answer)
		}
		live := 0
		for g, err := range h.store.UserGrants(t.Context(), subject) {
			h.must(err)
			if g.State != storage.GrantRevoked {
				live++
			}
		}
		if most := map[int]int{http.StatusSeeOther: 1}[tt.status]; live > most { // that of the page before
			t.Errorf("%s: %d grants are alive", name, live)
		}
		if got := b.unasked(asks(web)); got != "consent_required" {
			t.Errorf("%s: then %s", name, got)
		}
	}
}

// TestEndedWhileDeciding: if everything of a person ends at the moment in which a decision is
// remembered, nothing stays remembered.
func TestEndedWhileDeciding(t *testing.T) {
	t.Parallel()
	web := testClients()["web"]
	for _, when := range []string{"before", "after"} {
		h := newHarness(t, setup{})
		b := h.newBrowser()
		b.code(asks(web))
		subject := h.subject()
		hook := map[string]*atomic.Pointer[func(op, key string)]{"before": &h.meter.before, "after": &h.meter.after}[when]
		h.meter.once(hook, "put", "consent", func() { h.must(h.store.RevokeUser(context.Background(), subject, "test")) })
		b.decide(asks(web), "always")
		hook.Store(nil)
		if got := b.unasked(asks(web)); got != "consent_required" {
			t.Errorf("%s: %s", when, got)
		}
	}
}

// TestTwoTabs: decisions in two tabs are both remembered, and requests at once without a page have
// a grant each.
func TestTwoTabs(t *testing.T) {
	t.Parallel()
	h, web := newHarness(t, setup{}), testClients()["web"]
	b := h.newBrowser()
	b.decide(replaced(asks(web), "scope", "notes:read"), "always")
	b.decide(replaced(asks(web), "scope", "tasks:read", "resource", tasks), "always")
	codes := map[string]bool{}
	for i, r := range together(func(i int) reply {
		request := replaced(asks(web), "scope", "notes:read")
		if i%2 == 1 {
			request = replaced(asks(web), "scope", "tasks:read", "resource", tasks)
		}
		return h.with(b.jar, h.newRequest(http.MethodGet, h.issuer+"/authorize", request))
	}) {
		code := r.location(t).Query().Get("code")
		if code == "" || codes[code] {
			t.Errorf("request %d: %s", i, r)
		}
		codes[code] = true
	}
}

// TestUnaskedAreLimited: beyond a number of requests in an hour that are answered without a page, the
// person is asked.
func TestUnaskedAreLimited(t *testing.T) {
	t.Parallel()
	h, web := newHarness(t, setup{}), testClients()["web"]
	b := h.newBrowser()
	b.decide(asks(web), "always")
	n := 0
	for n < 200 && b.unasked(asks(web)) == "code" {
		n++
	}
	if n < 30 || n == 200 {
		t.Errorf("%d requests", n)
	}
	h.clock.advance(time.Hour)
	if got := b.unasked(asks(web)); got != "code" {
		t.Errorf("an hour later: %s", got)
	}
}
