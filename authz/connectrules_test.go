package authz_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"gatehouse.example/authz"
	"gatehouse.example/authz/admin"
	"gatehouse.example/authz/upstream"
	"gatehouse.example/authz/upstream/upstreamtest"
	"gatehouse.example/storage"
)

// connected signs the person of the tests in with the password and connects the account that the
// provider says is there.
func (p *atProvider) connected(fake *upstreamtest.Provider, provider string) *browser {
	p.t.Helper()
	b := p.newBrowser()
	b.signInForAccount(personName)
	b.connect(fake, provider)
	return b
}

func (b *browser) connect(fake *upstreamtest.Provider, provider string) {
	b.h.t.Helper()
	if r := b.open(b.connecting(fake, provider).String()); r.status != http.StatusSeeOther {
		b.h.t.Fatalf("connecting: %s", r)
	}
	b.follow()
}

// aliasAt returns the alias of an account at the company.
func (p *atProvider) aliasAt(subject string) storage.AliasID {
	return storage.IdentityAlias("company", p.company.URL(), subject)
}

// TestConnectedIsToldAndUndone: connecting and disconnecting are in the log and on the list of the
// person, what the provider states is on record, and nothing of the account stays afterwards.
func TestConnectedIsToldAndUndone(t *testing.T) {
	t.Parallel()
	p := newAtProvider(t, func(c *authz.Config) { c.Providers[0].Recheck = time.Hour })
	p.company.Change(func(a *upstreamtest.Answers) { a.Rotates = true })
	p.company.SignIn(personOf("1", "ada@example.com", "name", "Ada", "groups", []string{"staff"}))
	id, reader := p.aliasAt("1"), p.user(t, personName)
	b := p.connected(p.company, "company")
	user := p.user(t, personName)
	if user.Email != "ada@example.com" || user.FullName != "Ada" || len(user.Identities) != 1 || user.Identities[0].Handle != "ada@example.com" || len(user.Identities[0].Groups) != 1 {
		t.Errorf("on record: %+v", user)
	}
	kept, err := p.store.ProviderToken(t.Context(), id)
	if err != nil || kept.UserName != reader.Name || kept.Subject != reader.Subject {
		t.Errorf("the provider's token is kept for %q: %v", kept.UserName, err)
	}
	p.wantEvent(b, "was connected.")
	p.wantLogged(`msg="account at a provider connected" user=reader`)
	b.open(p.issuer + "/account/providers")
	if r := b.submit("disconnect", string(id)); r.status != http.StatusSeeOther {
		t.Fatalf("disconnecting: %s", r)
	}
	if _, err := p.store.Alias(t.Context(), id); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("the account still leads somewhere: %v", err)
	}
	if _, err := p.store.ProviderToken(t.Context(), id); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("the provider's token is still kept: %v", err)
	}
	p.wantEvent(b, "was disconnected.")
	p.wantLogged(`msg="account at a provider disconnected" user=reader`)
	b.open(p.issuer + "/account/providers")
	mustShow(t, b.submit("disconnect", string(id)), http.StatusBadRequest, "invalid_request")
	b.open(p.issuer + "/account/providers")
	mustShow(t, b.submit(), http.StatusBadRequest, "invalid_request")
}

// wantLogged looks for a part of a line in the log.
func (h *harness) wantLogged(part string) {
	h.t.Helper()
	if !strings.Contains(h.log.String(), part) {
		h.t.Errorf("the log has no %s:\n%s", part, h.log)
	}
}

// endAlias ends an alias whatever it leads to.
func (h *harness) endAlias(id storage.AliasID) error {
	alias, err := h.store.Alias(h.t.Context(), id)
	if err != nil {
		return err
	}
	return h.store.EndAlias(h.t.Context(), id, alias)
}

// TestConnectedElsewhereWhileDisconnecting: an account that somebody else connects in the moment in which
// its person disconnects it is theirs, and stays so, with the token of the provider.
func TestConnectedElsewhereWhileDisconnecting(t *testing.T) {
	t.Parallel()
	p := newAtProvider(t, func(c *authz.Config) { c.Providers[0].Recheck = time.Hour })
	p.company.SignIn(personOf("1", "ada@example.com"))
	own := p.connected(p.company, "company")
	p.addPerson("writer")
	other := p.newBrowser()
	other.signInForAccount("writer")
	back := other.connecting(p.company, "company").String()
	own.open(p.issuer + "/account/providers")
	done := p.meanwhile("alias", func() {
		if r := other.open(back); r.status != http.StatusSeeOther {
			t.Errorf("connecting: %s", r)
		}
	})
	r := own.submit("disconnect", string(p.aliasAt("1")))
	done()
	if r.status != http.StatusSeeOther {
		t.Fatalf("disconnecting: %s", r)
	}
	leads, err := p.store.UserOf(t.Context(), p.aliasAt("1"))
	if err != nil || leads.Name != "writer" {
		t.Errorf("the account leads to %q, %v", leads.Name, err)
	}
	if token, err := p.store.ProviderToken(t.Context(), p.aliasAt("1")); err != nil || token.Subject != leads.Subject {
		t.Errorf("the token of the provider: %+v, %v", token, err)
	}
	if len(p.person().Identities) != 0 {
		t.Errorf("the person before lists %+v", p.person().Identities)
	}
}

// TestDisconnectForgetsWhatItStated: no resource is told an address for which nobody vouches any more.
func TestDisconnectForgetsWhatItStated(t *testing.T) {
	t.Parallel()
	p := newAtProvider(t, nil)
	p.company.SignIn(personOf("1", "ada@example.com"))
	b := p.connected(p.company, "company")
	if u := p.person(); u.Email != "ada@example.com" {
		t.Fatalf("connected: %q", u.Email)
	}
	b.open(p.issuer + "/account/providers")
	if r := b.submit("disconnect", string(p.aliasAt("1"))); r.status != http.StatusSeeOther {
		t.Fatalf("disconnecting: %s", r)
	}
	if u := p.person(); u.Email != "" || u.FullName != "" {
		t.Errorf("disconnected: %q, %q", u.Email, u.FullName)
	}
}

// TestDisconnectEndsItsSessions: sessions that began with the account end, but not the one that
// disconnects it, and not those that began otherwise: with a password, at another provider, or with
// another account at the same one. A session that cannot be read is no obstacle.
func TestDisconnectEndsItsSessions(t *testing.T) {
	t.Parallel()
	p := newAtProvider(t, nil)
	with := func(fake *upstreamtest.Provider, provider, subject string) *browser {
		fake.SignIn(personOf(subject, "ada"+subject+"@example.com"))
		b := p.newBrowser()
		b.arrive(fake, provider, asks(testClients()["native"]))
		return b
	}
	own := p.connected(p.company, "company")
	p.company.SignIn(personOf("2", "ada2@example.com"))
	own.connect(p.company, "company")
	own.connect(p.other, "other")   // its subject is "1" there too
	with(p.company, "company", "1") // unreadable from now on
	p.damageSessions(func(s storage.Session) bool { return s.Provider == "company" })
	first, me := with(p.company, "company", "1"), with(p.company, "company", "1")
	second, elsewhere := with(p.company, "company", "2"), with(p.other, "other", "1")
	me.open(p.issuer + "/account/providers")
	if r := me.submit("disconnect", string(p.aliasAt("1"))); r.status != http.StatusSeeOther {
		t.Fatalf("disconnecting: %s", r)
	}
	for what, tt := range map[string]struct {
		b    *browser
		live bool
	}{
		"of the account": {first, false}, "the present one": {me, true},
		"of another account there": {second, true}, "of another provider": {elsewhere, true}, "of the password": {own, true},
	} {
		if tt.b.live() != tt.live {
			t.Errorf("%s: live %t", what, !tt.live)
		}
	}
}

// TestDisconnectedAtTheSecondTry: the store fails after the account is disconnected. At the second try the
// sessions that began with it end, and no other.
func TestDisconnectedAtTheSecondTry(t *testing.T) {
	t.Parallel()
	p := newAtProvider(t, nil)
	me := p.connected(p.company, "company")
	me.connect(p.other, "other")
	with := func(fake *upstreamtest.Provider, provider string) *browser {
		b := p.newBrowser()
		b.arrive(fake, provider, asks(testClients()["native"]))
		return b
	}
	began, elsewhere := with(p.company, "company"), with(p.other, "other")
	me.open(p.issuer + "/account/providers")
	_, values := me.page.inputs(t)
	values = replaced(values, "disconnect", string(p.aliasAt("1")))
	p.meter.once(&p.meter.after, "put", "user", func() { p.meter.failReads("session") })
	mustShow(t, p.with(me.jar, postForm(p.harness, "/account/providers", values)), http.StatusServiceUnavailable, "temporarily_unavailable")
	p.meter.failReads("")
	if n := len(p.user(t, personName).Identities); n != 1 || !began.live() {
		t.Fatalf("after the first try: %d accounts, the session is live %t", n, began.live())
	}
	mustShow(t, p.with(me.jar, postForm(p.harness, "/account/providers", values)), http.StatusBadRequest, "invalid_request")
	if began.live() || !elsewhere.live() || !me.live() {
		t.Errorf("live after the second try: %t, at another provider %t, the present one %t", began.live(), elsewhere.live(), me.live())
	}
}

// TestDisconnectedMeanwhile: an account that is disconnected while a sign-in with it is under way, after
// its person was read, signs nobody in.
func TestDisconnectedMeanwhile(t *testing.T) {
	t.Parallel()
	p := newAtProvider(t, nil)
	own := p.connected(p.company, "company")
	b := p.newBrowser()
	b.choose("company", asks(testClients()["native"]))
	back := b.leave(p.company).String()
	own.open(p.issuer + "/account/providers")
	done := p.meanwhile("session", func() {
		if r := own.submit("disconnect", string(p.aliasAt("1"))); r.status != http.StatusSeeOther {
			t.Errorf("disconnecting: %s", r)
		}
	})
	r := b.open(back)
	done()
	mustShowPage(t, r, http.StatusBadRequest)
	if cookiesOf(t, r)[hostSession] != nil || b.live() || len(p.sessions()) != 1 {
		t.Errorf("the account signs in, and there are %d sessions", len(p.sessions()))
	}
	if !own.live() {
		t.Error("the person who disconnected it is not signed in any more")
	}
}

// damageSessions cuts the records of those sessions of the person of the tests in half.
func (h *harness) damageSessions(which func(storage.Session) bool) {
	h.t.Helper()
	for _, session := range h.sessions() {
		if which(session) {
			h.damage("gatehouse:session:" + session.ID())
		}
	}
}

// TestConnectAsksWhoMayComeIn: an account that the rules of the provider do not let in is not
// connected, and a sign-in of long ago, or none, begins nothing.
func TestConnectAsksWhoMayComeIn(t *testing.T) {
	t.Parallel()
	p := newAtProvider(t, func(c *authz.Config) { c.Providers[0].Allow = upstream.Allow{Groups: []string{"staff"}} })
	b := p.newBrowser()
	b.signInForAccount(personName)
	mustShow(t, b.open(b.connecting(p.company, "company").String()), http.StatusForbidden, "access_denied")
	b.open(p.issuer + "/account/providers")
	back := b.connecting(p.company, "company").String()
	b.withoutSession()
	mustShowPage(t, b.open(back), http.StatusBadRequest)
	b = p.newBrowser()
	b.signInForAccount(personName)
	p.clock.advance(10*time.Minute + time.Second)
	for name, value := range map[string]string{"connect": "company", "disconnect": "x"} {
		if r := b.submit(name, value); r.status != http.StatusSeeOther || !strings.Contains(r.header.Get("Location"), p.issuer+"/login?transaction=") {
			t.Errorf("%s after an old sign-in: %s", name, r)
		}
	}
	if n := len(p.user(t, personName).Identities); n != 0 {
		t.Errorf("%d accounts are connected", n)
	}
}

// TestConnectMendsAndYields: an account that the person lists already is not listed twice when its
// alias has to be mended; and whoever loses the alias, before or after the account is listed, does
// not keep the account.
func TestConnectMendsAndYields(t *testing.T) {
	t.Parallel()
	p := newAtProvider(t, nil)
	b, id := p.connected(p.company, "company"), p.aliasAt("1")
	if err := p.endAlias(id); err != nil {
		t.Fatal(err)
	}
	b.connect(p.company, "company")
	if user, err := p.store.UserOf(t.Context(), id); err != nil || len(user.Identities) != 1 {
		t.Errorf("connected again: %+v, %v", user.Identities, err)
	}
	for when, steal := range map[string]struct {
		op, kind string
		change   func(p *atProvider, id storage.AliasID) error
	}{
		"taken before": {"put", "alias", func(p *atProvider, id storage.AliasID) error {
			return p.store.PutAlias(t.Context(), id, storage.Alias{}.Leading("writer", "somebody"))
		}},
		"taken after": {"put", "user", func(p *atProvider, id storage.AliasID) error {
			alias, err := p.store.Alias(t.Context(), id)
			if err != nil {
				return err
			}
			writer := p.user(t, "writer")
			writer.Identities = []storage.Identity{{Provider: "company", Issuer: p.company.URL(), Subject: "1"}}
			return errors.Join(p.store.UpdateUser(t.Context(), writer), p.store.PutAlias(t.Context(), id, alias.Leading("writer", writer.Subject)))
		}},
		"gone after": {"put", "user", func(p *atProvider, id storage.AliasID) error { return p.endAlias(id) }},
	} {
		p := newAtProvider(t, nil)
		p.addPerson("writer")
		b := p.newBrowser()
		b.signInForAccount(personName)
		back := b.connecting(p.company, "company").String()
		p.meter.once(&p.meter.before, steal.op, steal.kind, func() {
			if err := steal.change(p, p.aliasAt("1")); err != nil {
				t.Error(when, err)
			}
		})
		r := b.open(back)
		p.meter.before.Store(nil)
		mustShow(t, r, http.StatusConflict, "access_denied")
		if n := len(p.user(t, personName).Identities); n != 0 {
			t.Errorf("%s: the person keeps the account", when)
		}
	}
}

// TestRemovedWhileConnecting: a person who is removed while an account at a provider is being connected
// leaves its alias behind. The account then gets a person of its own: neither the name nor the subject of
// the one who was removed.
func TestRemovedWhileConnecting(t *testing.T) {
	t.Parallel()
	p := newAtProvider(t, nil)
	reader := p.user(t, personName)
	b := p.newBrowser()
	b.signInForAccount(personName)
	back := b.connecting(p.company, "company").String()
	done := p.meanwhile("user", func() { p.must(admin.RemoveUser(t.Context(), p.store, personName)) })
	mustShowPage(t, b.open(back), http.StatusForbidden)
	done()
	if alias, err := p.store.Alias(t.Context(), p.aliasAt("1")); err != nil || alias.Subject != reader.Subject {
		t.Fatalf("no alias is left: %+v, %v", alias, err)
	}
	p.newBrowser().arrive(p.company, "company", asks(testClients()["native"]))
	if user := p.user(t, adaName); user.Subject == reader.Subject {
		t.Error("the account has the subject of the person who was removed")
	}
	if _, err := p.store.User(t.Context(), personName); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("the name of the person who was removed: %v", err)
	}
}
