package authz_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"gatehouse.example/authz"
	"gatehouse.example/storage"
)

// TestPreApproved: for what the operator approved, the account and the client are shown once, with
// nothing to choose, and after that no page. More, another host, another client, a client that
// nobody vouches for, and the end of the approval bring the page back.
func TestPreApproved(t *testing.T) {
	t.Parallel()
	basic, web := testClients()["basic"], testClients()["web"]
	h := newHarness(t, setup{config: func(c *authz.Config) {
		for _, id := range []string{basic.ID, web.ID} {
			c.PreApproved = append(c.PreApproved, authz.PreApproval{ClientID: id, Resource: notes, Scopes: []string{"notes:read"}})
		}
	}})
	read := replaced(asks(basic), "scope", "notes:read")
	b := h.newBrowser()
	b.open(h.issuer + "/authorize?" + read.Encode())
	if page := b.follow(); !strings.Contains(page.body, `name="password"`) {
		t.Fatalf("nobody is signed in: %s", page)
	}
	b.submit("username", personName, "password", personPassword)
	if got := b.unasked(read); got != "consent_required" {
		t.Errorf("before the account was shown: %s", got)
	}
	b.open(h.issuer + "/authorize?" + read.Encode())
	page := b.follow()
	if page.status != http.StatusOK || !strings.Contains(page.body, personName) || !strings.Contains(page.body, "Continue") ||
		strings.Contains(page.body, `type="checkbox"`) || strings.Contains(page.body, `name="remember"`) {
		t.Fatalf("the page of an approved client: %s", page)
	}
	code := b.submit("decision", "allow").location(t).Query().Get("code")
	if answer := h.toToken(basic, redemption(basic, code)); answer.status != http.StatusOK || answer.member(t, "scope") != "notes:read" {
		t.Errorf("%s", answer)
	}
	if got := b.unasked(read); got != "code" {
		t.Errorf("afterwards: %s", got)
	}
	if got := b.unasked(replaced(asks(basic), "scope", "notes:read notes:write")); got != "consent_required" {
		t.Errorf("more: %s", got)
	}
	b.open(h.issuer + "/authorize?" + replaced(asks(web), "scope", "notes:read").Encode())
	if page := b.follow(); !strings.Contains(page.body, `type="checkbox"`) {
		t.Errorf("a client that nobody vouches for: %s", page)
	}
	b.walk(replaced(asks(basic), "scope", "notes:read", "prompt", "consent"), "deny")
	if got := b.unasked(read); got != "consent_required" {
		t.Errorf("after declining: %s", got)
	}
	b.code(read)
	h.changeClient(basic.ID, func(c *storage.Client) { c.Metadata.ClientName = "Another" })
	if got := b.unasked(read); got != "consent_required" {
		t.Errorf("it states something else: %s", got)
	}
	b.code(read)
	if got := b.unasked(read); got != "code" {
		t.Errorf("shown again: %s", got)
	}
	h.cfg.PreApproved = nil
	h.restart()
	if got := b.unasked(read); got != "consent_required" {
		t.Errorf("approved no more: %s", got)
	}
}

// TestPreApprovedAndUnticked: what a person unticked on a page that asked for more is not granted
// without a page later, although the operator approved it and a page showed the account before. That
// is so too if the rest was remembered. The page of what is approved, shown again, ends it.
func TestPreApprovedAndUnticked(t *testing.T) {
	t.Parallel()
	basic := testClients()["basic"]
	h := newHarness(t, setup{config: func(c *authz.Config) {
		c.PreApproved = []authz.PreApproval{{ClientID: basic.ID, Resource: notes, Scopes: []string{"notes:read"}}}
	}})
	read, both := replaced(asks(basic), "scope", "notes:read"), replaced(asks(basic), "scope", "notes:read notes:write")
	b := h.newBrowser()
	for _, remember := range []string{"once", "always"} {
		b.code(read)
		if got := b.unasked(read); got != "code" {
			t.Fatalf("%s: after the page of what is approved: %s", remember, got)
		}
		b.decide(both, remember, "notes:read")
		if got := b.unasked(read); got != "consent_required" {
			t.Errorf("%s: what was unticked: %s", remember, got)
		}
	}
	b.code(read)
	b.decide(both, "always")
	if got := b.unasked(both); got != "code" {
		t.Errorf("everything was ticked: %s", got)
	}
	if page := b.account(personName, "/account/remembered"); strings.Count(page.body, "client.example.org") != 1 {
		t.Errorf("the place of both decisions is not listed once: %s", page)
	}
}

// TestApprovedMeanwhile: a decision on a page with boxes is what was ticked there, also if the operator
// approves the rest before it arrives. Of a page that had none, nothing is granted if the approval
// ended: the page with boxes follows.
func TestApprovedMeanwhile(t *testing.T) {
	t.Parallel()
	basic := testClients()["basic"]
	approved := func(scopes ...string) func(*authz.Config) {
		return func(c *authz.Config) {
			c.PreApproved = []authz.PreApproval{{ClientID: basic.ID, Resource: notes, Scopes: scopes}}
		}
	}
	h := newHarness(t, setup{config: approved("notes:read")})
	both := replaced(asks(basic), "scope", "notes:read notes:write")
	b := h.newBrowser().atConsentFor(both)
	h.mustReload(approved("notes:read", "notes:write"))
	code := b.submit("decision", "allow", "scope", "notes:write").location(t).Query().Get("code")
	if got := h.toToken(basic, redemption(basic, code)).member(t, "scope"); got != "notes:write" {
		t.Errorf("the ticked box was notes:write, the token has %q", got)
	}
	b = h.newBrowser().atConsentFor(both)
	h.mustReload(approved("notes:read"))
	if answer := b.submit("decision", "allow"); answer.status != http.StatusBadRequest || !strings.Contains(answer.body, `type="checkbox"`) {
		t.Errorf("want the page with boxes: %s", answer)
	}
}

// TestAnswerToWhatWasShown: an answer counts for what the page showed. What a person gained or lost while
// it was open is shown on a new page first, also if there was nothing to tick for it.
func TestAnswerToWhatWasShown(t *testing.T) {
	t.Parallel()
	basic := testClients()["basic"]
	for name, one := range map[string]struct {
		request       url.Values
		before, after func(*harness)
	}{
		"a scope that is pre-approved was gained": {replaced(asks(basic), "scope", "notes:read notes:write"), func(h *harness) { h.leave("admins") }, func(h *harness) { h.join("admins") }},
		"one was lost": {replaced(asks(basic), "scope", "notes:read notes:write"), unchangedPerson, func(h *harness) { h.leave("admins") }},
		"one of two resources, nothing is ticked": {naming(replaced(asks(basic), "scope", "notes:write"), notes, tasks), unchangedPerson, func(h *harness) { h.leave("admins") }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newGuarded(t, func(c *authz.Config) {
				c.PreApproved = []authz.PreApproval{{ClientID: basic.ID, Resource: notes, Scopes: []string{"notes:read", "notes:write"}}}
			})
			one.before(h)
			b := h.newBrowser().atConsentFor(one.request)
			one.after(h)
			h.clock.advance(5 * time.Second) // what the server knew of groups
			if answer := b.submit("decision", "allow", "scope", ""); answer.status != http.StatusBadRequest || !strings.Contains(answer.body, "What you can allow here has changed") {
				t.Errorf("the page was for something else: %s", answer)
			}
			if answer := b.decided(); answer.location(t).Query().Get("code") == "" {
				t.Errorf("the new page: %s", answer)
			}
		})
	}
}

func unchangedPerson(*harness) {}

// TestPreApprovedMistakes: approvals of what does not exist are refused.
func TestPreApprovedMistakes(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	one := authz.PreApproval{ClientID: "c", Resource: notes, Scopes: []string{"notes:read"}}
	for want, list := range map[string][]authz.PreApproval{
		"there is no resource": {{ClientID: "c", Resource: "https://unknown.example.com/", Scopes: []string{"notes:read"}}},
		"has no scope":         {{ClientID: "c", Resource: notes, Scopes: []string{"notes:raed"}}},
		"name those":           {{ClientID: "c", Resource: notes}},
		"names no client":      {{Resource: notes, Scopes: []string{"notes:read"}}},
		"two entries":          {one, one},
	} {
		cfg := h.cfg
		cfg.PreApproved = list
		if _, err := authz.New(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// TestUnaskedRoundTrips: from /authorize to a code without a page takes three round trips: client,
// session, person and consent together, grant, and again client, person and consent. A client of the
// configuration takes as many. docs/design.md promises these numbers.
func TestUnaskedRoundTrips(t *testing.T) {
	t.Parallel()
	web := testClients()["web"]
	known := storage.Client{ID: "known", Source: storage.ClientConfigured, Metadata: web.Metadata}
	h := newHarness(t, setup{config: func(c *authz.Config) { c.Clients = []storage.Client{known} }})
	b := h.newBrowser()
	for _, c := range []testClient{web, {Client: known, redirect: web.redirect}} {
		b.decide(asks(c), "always")
		before := h.roundTrips.Load()
		if got := b.unasked(asks(c)); got != "code" {
			t.Fatalf("%s: %s", c.ID, got)
		}
		if n := h.roundTrips.Load() - before; n != 3 {
			t.Errorf("%s: %d round trips, want 3", c.ID, n)
		}
	}
}

// TestRememberedByThoseWhoMay: a person who loses a group is granted less without a page, and
// nothing when nothing is left; then there is a page to see. Getting more brings the page back.
func TestRememberedByThoseWhoMay(t *testing.T) {
	t.Parallel()
	web := testClients()["web"]
	h := newHarness(t, setup{config: func(c *authz.Config) {
		c.Groups = map[string][]string{"staff": {personName}, "admins": {personName}}
		c.Resources[0].Allow = authz.Allow{Groups: []string{"staff"}}
		c.Resources[0].Scopes[1].Allow = authz.Allow{Groups: []string{"admins"}}
	}})
	request := replaced(asks(web), "scope", "notes:read notes:write")
	scope := func(b *browser) string {
		t.Helper()
		code := b.open(h.issuer + "/authorize?" + request.Encode()).location(t).Query().Get("code")
		if code == "" {
			return "a page"
		}
		return h.toToken(web, redemption(web, code)).member(t, "scope")
	}
	set := func(staff, admins bool) {
		h.cfg.Groups = map[string][]string{"staff": {}, "admins": {}}
		if staff {
			h.cfg.Groups["staff"] = []string{personName}
		}
		if admins {
			h.cfg.Groups["admins"] = []string{personName}
		}
		h.restart()
	}
	b := h.newBrowser()
	set(true, false)
	b.decide(request, "always")
	if got := scope(b); got != "notes:read" {
		t.Errorf("what the person may have was remembered: %s", got)
	}
	set(true, true)
	if got := scope(b); got != "a page" {
		t.Errorf("the person may have more now: %s", got)
	}
	b.decide(request, "always")
	if got := scope(b); got != "notes:read notes:write" {
		t.Errorf("all of it: %s", got)
	}
	set(true, false)
	if got := scope(b); got != "notes:read" {
		t.Errorf("a group was lost: %s", got)
	}
	set(false, false)
	if got := b.unasked(request); got != "interaction_required" {
		t.Errorf("nothing is left: %s", got)
	}
}
