package authz_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"gatehouse.example/authz"
	"gatehouse.example/storage"
)

// wantOn looks for texts on a page; one that begins with "!" must not be there.
func wantOn(t *testing.T, what string, page reply, texts ...string) {
	t.Helper()
	for _, text := range texts {
		absent, not := strings.CutPrefix(text, "!")
		if strings.Contains(page.body, absent) == not {
			t.Errorf("%s: %q on the page: %t\n%s", what, absent, not, page.body)
		}
	}
}

// damage cuts a record in half.
func (h *harness) damage(key string) {
	h.t.Helper()
	item := h.rawItem(key)
	item.Data = item.Data[:len(item.Data)/2]
	h.putRaw(key, item)
}

// TestOverviewCounts: the overview counts what there is, says when there is more than it shows, and
// what it cannot read.
func TestOverviewCounts(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	user := h.person()
	b := h.newBrowser()
	wantOn(t, "at the beginning", b.account(personName, "/account"), "with this browser only", "No application acts for you.", "!cannot be read", "!failed since")
	for _, client := range []string{"native", "other", "web", "app", "basic"} {
		h.addGrant(user, client+"-client", notes)
		h.clock.advance(time.Second)
	}
	wantOn(t, "five clients", b.account(personName, "/account"), "The native client", "The basic client", "!and others act for you")
	h.addGrant(user, "post-client", notes)
	wantOn(t, "six clients", b.account(personName, "/account"), "The post client", "The basic client", "and others act for you", "!The native client")
	h.damage("gatehouse:grant:" + h.addGrant(user, "native-client", notes).ID)
	wantOn(t, "a damaged grant", b.account(personName, "/account"), "One entry cannot be read")
	h.newBrowser().account(personName, "/account")
	h.damage("gatehouse:session:" + h.sessions()[1].ID())
	wantOn(t, "a damaged session", b.account(personName, "/account"), "2 entries cannot be read")

	g := h.newBrowser()
	g.open(h.issuer + "/account")
	g.follow()
	g.submit("username", personName, "password", "wrong")
	page := b.account(personName, "/account")
	wantOn(t, "a guess", page, "One sign-in failed since you last signed in.")
	for range 4 { // events of four kinds
		h.clock.advance(25 * time.Hour)
		h.newBrowser().account(personName, "/account")
	}
	if n := strings.Count(h.newBrowser().account(personName, "/account").body, "<li>"); n != 3 {
		t.Errorf("%d events on the overview; want 3", n)
	}
}

// TestOverviewOfMany: more than a page of sessions, or of grants of one client, are said to be more.
func TestOverviewOfMany(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	user := h.person()
	b := h.newBrowser()
	b.account(personName, "/account")
	one := h.sessions()[0]
	for i := range 49 {
		h.must(h.store.CreateSession(t.Context(), fmt.Sprint("another ", i), one))
		h.addGrant(user, "native-client", notes)
	}
	h.addGrant(user, "native-client", notes)
	wantOn(t, "fifty", b.account(personName, "/account"), "with 50 browsers", "!with more than", "!and others act for you")
	h.must(h.store.CreateSession(t.Context(), "another", one))
	h.addGrant(user, "native-client", notes)
	wantOn(t, "more than fifty", b.account(personName, "/account"), "with more than 50 browsers", "and others act for you")
	for _, path := range []string{"/account/sessions", "/account/applications"} {
		first := b.account(personName, path)
		wantOn(t, path, first, ">Older<", "!>Newest<")
		second := b.open(h.issuer + nextPage.FindStringSubmatch(first.body)[1])
		wantOn(t, path, second, ">Newest<", "!>Older<")
	}
}

// TestWaysToSignIn: the overview says how the person can sign in, and leads to the pages that there
// are for it.
func TestWaysToSignIn(t *testing.T) {
	t.Parallel()
	const password, passkeys, factor, providers = `href="/account/password"`, `href="/account/passkeys"`, `href="/account/second-factor"`, `href="/account/providers"`
	const unused = "Nobody can sign in here with it now"
	former := storage.Identity{Provider: "former", Issuer: "https://former.example.com", Subject: "1"}
	for name, tt := range map[string]struct {
		issuer string
		config func(*authz.Config)
		person func(*storage.User)
		page   string // "" for the overview
		want   []string
	}{
		"a password":              {want: []string{"It is set.", "There is none: the password is enough.", password, passkeys, factor, "!" + providers, "With a password"}},
		"at an address":           {issuer: loopbackIssuer, want: []string{password, factor, "!" + passkeys}},
		"an account at a former":  {person: func(u *storage.User) { u.Identities = append(u.Identities, former) }, want: []string{providers, "<dt>Other accounts</dt><dd><p class=\"line\">None.", "!former"}},
		"a former in the list":    {person: func(u *storage.User) { u.Identities = append(u.Identities, former) }, page: "/providers", want: []string{"former", unused, `name="disconnect"`, "!only way"}},
		"a former one alone":      {person: func(u *storage.User) { u.Password, u.Identities = "", append(u.Identities, former) }, page: "/providers", want: []string{unused, `!name="disconnect"`, "!only way"}},
		"a passkey":               {person: func(u *storage.User) { u.Passkeys = []storage.Passkey{{ID: []byte("1")}} }, want: []string{"One passkey."}},
		"a second step":           {person: func(u *storage.User) { u.SecondFactor = &storage.SecondFactor{} }, want: []string{"After the password you enter a code."}},
		"no password":             {person: func(u *storage.User) { u.Password = "" }, want: []string{"There is none.", password}},
		"passwords are off":       {config: func(c *authz.Config) { c.NoPasswords = true }, want: []string{"!" + password, "!" + factor, passkeys}},
		"sessions with a passkey": {want: []string{"With a passkey"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, setup{issuer: tt.issuer})
			b := h.newBrowser()
			b.account(personName, "/account")
			if tt.person != nil {
				h.changeUser(tt.person)
			}
			if tt.config != nil {
				tt.config(&h.cfg)
				h.restart()
			}
			if name == "sessions with a passkey" {
				session := h.sessions()[0]
				session.Method = "passkey"
				h.must(h.store.UpdateSession(t.Context(), session))
			}
			wantOn(t, name, b.account(personName, "/account"+tt.page), tt.want...)
		})
	}
}

// TestWaysOfSomebodyOfAProvider: somebody of a provider has nothing of their own here.
func TestWaysOfSomebodyOfAProvider(t *testing.T) {
	t.Parallel()
	p := newAtProvider(t, nil)
	b := p.newBrowser()
	b.arrive(p.company, "company", asks(testClients()["native"]))
	page := b.open(p.issuer + "/account")
	wantOn(t, "overview", page, "With your account at", "The company", `href="/account/providers"`, `!href="/account/password"`, `!href="/account/passkeys"`, `!href="/account/second-factor"`)
	page = b.open(p.issuer + "/account/providers")
	if !strings.Contains(page.body, "only way to sign in") || strings.Contains(page.body, "Nobody can sign in") || len(page.buttons("disconnect")) != 0 {
		t.Errorf("the only way to sign in can be disconnected: %s", page)
	}
}

// TestRemembered: the page lists what need not ask again until it ends, the person takes one of them
// back, and nothing else changes.
func TestRemembered(t *testing.T) {
	t.Parallel()
	h, web, other := newHarness(t, setup{}), testClients()["web"], testClients()["several"]
	h.addPerson("writer")
	b := h.newBrowser()
	b.decide(asks(web), "always")
	b.decide(asks(other), "day")
	held := b.tokens(web, asks(web))
	page := b.account(personName, "/account/remembered")
	wantOn(t, "both", page, "The web client", "The several client", "client.example.org", "It need not ask you again until")
	stranger := h.newBrowser()
	theirs := stranger.account("writer", "/account/remembered")
	wantOn(t, "another person", theirs, "Every application asks you each time.", "!The web client")
	stranger.push(theirs, "/account/remembered", "forget", web.ID)
	mustShow(t, b.push(page, "/account/remembered", "forget", ""), http.StatusBadRequest, "invalid_request")
	for _, c := range []testClient{web, other} {
		if got := b.unasked(asks(c)); got != "code" {
			t.Errorf("nothing was forgotten yet, and %s has %s", c.ID, got)
		}
	}
	for range 2 {
		wantOn(t, "forgotten", b.push(page, "/account/remembered", "forget", web.ID), "It asks you again")
	}
	h.wantLogged(`msg="remembered consent forgotten" sub=` + h.subject() + " client=web-client")
	if web, other := b.unasked(asks(web)), b.unasked(asks(other)); web != "consent_required" || other != "code" || !h.active(held.access) {
		t.Errorf("afterwards: %s, %s; what acts already goes on: %t", web, other, h.active(held.access))
	}
	h.clock.advance(24 * time.Hour)
	wantOn(t, "a day later", b.account(personName, "/account/remembered"), "Every application asks you each time.")
}

// TestMinutesAreWhole: the page says how long access tokens outlive what is ended in whole minutes, and
// none too few.
func TestMinutesAreWhole(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{config: func(c *authz.Config) { c.AccessTokenTTL = 9*time.Minute + time.Second }})
	b := h.newBrowser()
	h.addGrant(h.person(), "native-client", notes)
	wantOn(t, "applications", b.account(personName, "/account/applications"), "for up to 10 minutes")
}
