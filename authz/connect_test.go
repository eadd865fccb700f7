package authz_test

import (
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"gatehouse.example/authz"
	"gatehouse.example/authz/upstream"
	"gatehouse.example/authz/upstream/upstreamtest"
	"gatehouse.example/storage"
)

var loopbackProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

// signInForAccount opens the page of providers and signs in with a password.
func (b *browser) signInForAccount(name string) reply {
	b.h.t.Helper()
	b.open(b.h.issuer + "/account/providers")
	b.follow()
	b.submit("username", name, "password", personPassword)
	return b.follow()
}

// connecting presses the button of a provider on the page, and returns where the provider sends the
// browser back.
func (b *browser) connecting(fake *upstreamtest.Provider, provider string) *url.URL {
	b.h.t.Helper()
	if r := b.submit("connect", provider); r.status != http.StatusSeeOther {
		b.h.t.Fatalf("connecting: %s", r)
	}
	return fake.Return(b.h.t, b.last.header.Get("Location"))
}

// TestConnect: a person connects an account at a provider to their own, signs in with it as the
// same person, and disconnects it, but never the last way to sign in.
func TestConnect(t *testing.T) {
	t.Parallel()
	p, c := newAtProvider(t, nil), testClients()["native"]
	b := p.newBrowser()
	page := b.signInForAccount(personName)
	if faults := pageFaults(page, http.StatusOK); len(faults) > 0 || !strings.Contains(page.body, `name="connect" value="company"`) {
		t.Errorf("%v %s", faults, page)
	}
	if r := b.open(b.connecting(p.company, "company").String()); r.location(t).String() != p.issuer+"/account/providers" {
		t.Fatalf("connected: %s", r)
	}
	if page = b.follow(); !strings.Contains(page.body, "ada@example.com") {
		t.Errorf("the page does not show the account: %s", page)
	}
	reader := p.user(t, personName)
	there := p.newBrowser()
	held := there.granted(p.company, c)
	if sub := claims(t, held.access)["sub"]; sub != reader.Subject {
		t.Errorf("with the provider somebody else signs in: %v", sub)
	}
	if _, err := p.store.User(t.Context(), adaName); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("there is another account: %v", err)
	}
	_, values := b.page.inputs(t)
	id := string(storage.IdentityAlias("company", p.company.URL(), "1"))
	mustShow(t, p.with(b.jar, postForm(p.harness, "/account/providers", form("disconnect", id, "csrf", "wrong"))), http.StatusForbidden, "invalid_request")
	if r := p.with(b.jar, postForm(p.harness, "/account/providers", replaced(values, "disconnect", id))); r.status != http.StatusSeeOther {
		t.Fatalf("disconnect: %s", r)
	}
	if there.live() || !b.live() {
		t.Error("the session that began with the account goes on, or the other one ended")
	}
	if len(p.user(t, personName).Identities) != 0 {
		t.Error("the account is still connected")
	}

	// For somebody of a provider the account there is the last way.
	alone := p.newBrowser()
	alone.arrive(p.company, "company", asks(c))
	alone.open(p.issuer + "/account/providers")
	if !strings.Contains(alone.last.body, "only way to sign in") {
		t.Errorf("%s", alone.last)
	}
	mustShow(t, alone.submit("disconnect", id), http.StatusConflict, "invalid_request")
}

// TestConnectIsOfThisSession: the account at the provider goes to the person who began, in the same
// session and browser, recently signed in; never away from another live account.
func TestConnectIsOfThisSession(t *testing.T) {
	t.Parallel()
	p, c := newAtProvider(t, nil), testClients()["native"]
	p.addPerson("writer")
	begin := func() (*browser, *url.URL) {
		b := p.newBrowser()
		b.signInForAccount(personName)
		return b, b.connecting(p.company, "company")
	}
	identities := func() int { return len(p.user(t, personName).Identities) + len(p.user(t, "writer").Identities) }

	b, back := begin()
	mustShowPage(t, p.newBrowser().open(back.String()), http.StatusBadRequest)
	other := p.newBrowser()
	other.signInForAccount("writer")
	mustShowPage(t, other.open(back.String()), http.StatusBadRequest)
	p.clock.advance(time.Second)
	b.open(p.issuer + "/authorize?" + replaced(asks(c), "prompt", "login").Encode())
	b.follow()
	b.submit("username", "writer", "password", personPassword) // another person in the same browser
	mustShowPage(t, b.open(back.String()), http.StatusBadRequest)
	if n := identities(); n != 0 {
		t.Fatalf("%d accounts were connected", n)
	}

	b, _ = begin()
	p.clock.advance(10*time.Minute + time.Second)
	if r := b.open(p.issuer + "/account/providers"); r.status != http.StatusSeeOther || !strings.Contains(r.header.Get("Location"), "/login") {
		t.Errorf("an old sign-in: %s", r)
	}

	owner := p.newBrowser()
	owner.arrive(p.company, "company", asks(c))
	b, back = begin()
	mustShow(t, b.open(back.String()), http.StatusConflict, "access_denied")
	if n := identities(); n != 0 || len(p.user(t, adaName).Identities) != 1 {
		t.Errorf("another account's identity was taken; %d", n)
	}
}

// TestConnectTogether: of two people who connect one account at the same time one has it.
func TestConnectTogether(t *testing.T) {
	t.Parallel()
	p := newAtProvider(t, nil)
	p.addPerson("writer")
	browsers, backs := []*browser{p.newBrowser(), p.newBrowser()}, make([]string, 2)
	for i, name := range []string{personName, "writer"} {
		browsers[i].signInForAccount(name)
		backs[i] = browsers[i].connecting(p.company, "company").String()
	}
	p.meter.holdReadsOf("alias", 2)
	var both sync.WaitGroup
	for i, b := range browsers {
		both.Go(func() { b.open(backs[i]) })
	}
	both.Wait()
	p.meter.after.Store(nil)
	if n := len(p.user(t, personName).Identities) + len(p.user(t, "writer").Identities); n != 1 {
		t.Errorf("the account is connected %d times", n)
	}
}

// TestSignInStoreFails: wherever the store fails in a callback, nothing is left half made: the
// person signs in afterwards, as one account.
func TestSignInStoreFails(t *testing.T) {
	t.Parallel()
	c := testClients()["native"]
	for lost := 1; lost < 12; lost++ {
		p := newAtProvider(t, func(c *authz.Config) {
			c.Providers[0].Recheck = time.Hour
			c.Providers[0].Allow = upstream.Allow{People: []string{"ada@example.com"}}
		})
		b := p.newBrowser()
		b.choose("company", asks(c))
		back := b.leave(p.company)
		writes := 0
		failing := func(op, _ string) {
			if op == "put" || op == "index add" {
				if writes++; writes == lost {
					p.faults.SetDown(true)
				}
			}
		}
		p.meter.before.Store(&failing)
		r := b.open(back.String())
		p.meter.before.Store(nil)
		p.faults.SetDown(false)
		if r.status == http.StatusSeeOther {
			if lost < 6 {
				t.Errorf("the store failed at write %d, and the answer is %s", lost, r)
			}
			break
		}
		if r.status != http.StatusServiceUnavailable || r.header.Get("Retry-After") == "" || cookiesOf(t, r)[hostSession] != nil {
			t.Errorf("write %d: %s", lost, r)
		}
		if page := p.newBrowser().arrive(p.company, "company", asks(c)); page.status != http.StatusOK {
			t.Errorf("afterwards: %s", page)
		}
		names := 0
		for _, err := range p.store.Users(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			names++
		}
		if names != 2 {
			t.Errorf("write %d: there are %d people; want the reader and one more", lost, names)
		}
	}
}

// TestStrangersStates: attempts that were begun in any number of browsers are stored at their callback
// only within the share of their network.
func TestStrangersStates(t *testing.T) {
	t.Parallel()
	p, c := newAtProvider(t, nil), testClients()["native"]
	callbacks := make([]func() int, 320)
	for i := range callbacks {
		stranger := p.newBrowser()
		stranger.choose("company", asks(c))
		stranger.submit("decision", "allow")
		u, _ := url.Parse(stranger.last.header.Get("Location"))
		callbacks[i] = func() int {
			return stranger.open(p.issuer + "/login/company/callback?code=made-up&iss=" + url.QueryEscape(p.company.URL()) + "&state=" + url.QueryEscape(u.Query().Get("state"))).status
		}
	}
	writes, limited := p.meter.writes.Load(), 0
	for _, callback := range callbacks {
		if callback() == http.StatusTooManyRequests {
			limited++
		}
	}
	if n := p.meter.writes.Load() - writes; n != 300 || limited != 20 {
		t.Errorf("%d writes, %d callbacks were limited; want 300 and 20", n, limited)
	}
}

// TestStrangersCodes: made-up codes use up the share of their network, not the provider's patience
// with this server, and nobody else's turn.
func TestStrangersCodes(t *testing.T) {
	t.Parallel()
	p, c := newAtProvider(t, func(c *authz.Config) { c.TrustedProxies = loopbackProxies }), testClients()["native"]
	stranger := p.newBrowser()
	attempt := func() int {
		stranger.choose("company", asks(c))
		if r := stranger.submit("decision", "allow"); r.status != http.StatusSeeOther {
			return r.status
		}
		u, _ := url.Parse(stranger.last.header.Get("Location"))
		return stranger.open(p.issuer + "/login/company/callback?code=made-up&iss=" + url.QueryEscape(p.company.URL()) + "&state=" + url.QueryEscape(u.Query().Get("state"))).status
	}
	for range 2 { // who comes back as a person costs the share nothing
		p.newBrowser().arrive(p.company, "company", asks(c))
	}
	limited := 0
	for range 320 {
		if attempt() == http.StatusTooManyRequests {
			limited++
		}
	}
	if n := p.company.Requests("/token") - 2; n != 300 || limited != 20 {
		t.Errorf("%d made-up codes reached the provider, %d were limited", n, limited)
	}
	stranger.choose("company", asks(c))
	if r := stranger.submit("decision", "allow"); r.status != http.StatusTooManyRequests {
		t.Errorf("with the share used up the stranger is sent to the provider: %s", r)
	}
	if page := stranger.arrive(p.other, "other", asks(c)); page.status != http.StatusOK {
		t.Errorf("the share at another provider: %s", page)
	}
	person := p.newBrowser()
	person.from = "198.51.100.9"
	if page := person.arrive(p.company, "company", asks(c)); page.status != http.StatusOK {
		t.Errorf("somebody of another network: %s", page)
	}
}
