package authz_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"gatehouse.example/authz"
	"gatehouse.example/authz/admin"
	"gatehouse.example/storage"
)

// TestPasswordIsOnRecord: a change of the password is in the log and on the person's list, ends a link
// that was not used, and makes the browser known again; a wrong current password is in the log.
func TestPasswordIsOnRecord(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{config: behindProxy})
	b := h.signedInAt("/account/password")
	link := h.invited("ada")
	token := strings.TrimPrefix(link, h.issuer+"/invite?token=")
	ada, err := h.store.User(t.Context(), "ada")
	h.must(err)
	h.changeUser(func(u *storage.User) { u.Invitation = ada.Invitation })
	page := b.page
	wantRefusal(t, "a wrong one", b.submit("current", "not it", "new", "a new password"), http.StatusForbidden, "not right")
	h.wantLogged(`msg="password not changed" user=reader from=127.0.0.1`)
	b.page = page
	r := b.submit("current", personPassword, "new", "a new password")
	if r.status != http.StatusOK || cookiesOf(t, r)["__Host-"+cookieName(h.issuer, "authz_device")] == nil {
		t.Errorf("the change: %s", r)
	}
	h.wantLogged(`msg="password changed" user=reader sub=` + h.subject())
	if got := h.happened(personName); !slices.Equal(got, []string{"password-changed"}) {
		t.Errorf("what happened: %q", got)
	}
	if h.person().Invitation != nil {
		t.Errorf("the link %s is still good", token)
	}
}

// TestWhoNeedsNoPassword: whoever has none, or signed in with a passkey, chooses one without the
// current one. With passwords off nobody does.
func TestWhoNeedsNoPassword(t *testing.T) {
	t.Parallel()
	for what, prepare := range map[string]func(h *harness) *browser{
		"has none": func(h *harness) *browser {
			b := h.signedInAt("/account")
			h.changeUser(func(u *storage.User) { u.Password = "" })
			return b
		},
		"a passkey": func(h *harness) *browser {
			_, k := h.withPasskey()
			b := h.newBrowser()
			b.open(h.issuer + "/account")
			b.follow()
			b.answer(k, nil)
			return b
		},
	} {
		h := newHarness(t, setup{})
		b := prepare(h)
		wantOn(t, what, b.open(h.issuer+"/account/password"), `name="new"`, `!name="current"`)
		h.cfg.NoPasswords = true
		h.restart()
		wantRefusal(t, what, b.submit("new", "a new password"), http.StatusForbidden, "Passwords are not used here")
		h.cfg.NoPasswords = false
		h.restart()
		if r := b.submit("new", "a new password"); r.status != http.StatusOK {
			t.Errorf("%s: %s", what, r)
		}
		mustSignIn(t, what, h.atSignIn().submit("username", personName, "password", "a new password"))
	}
}

// TestChangesMeanwhile: a change is made to the record as it is when it is written. Another password
// that came meanwhile is not replaced, nobody goes on whose session ended meanwhile, and what was
// prepared for the change is removed.
func TestChangesMeanwhile(t *testing.T) {
	t.Parallel()
	for what, tt := range map[string]struct {
		change func(h *harness)
		status int
		left   int // sessions of before
	}{
		"another name":      {func(h *harness) { h.changeUser(func(u *storage.User) { u.FullName = "Reader" }) }, http.StatusOK, 0},
		"another password":  {func(h *harness) { h.changeUser(func(u *storage.User) { u.Password = "another" }) }, http.StatusBadRequest, 1},
		"the session ended": {func(h *harness) { h.changeUser(func(u *storage.User) { u.SessionEpoch += 7 }) }, http.StatusForbidden, 1},
		"removed":           {func(h *harness) { h.must(admin.RemoveUser(t.Context(), h.store, personName)) }, http.StatusForbidden, 0},
	} {
		h := newHarness(t, setup{})
		b := h.signedInAt("/account/password")
		subject := h.subject()
		done := h.meanwhile("user", func() { tt.change(h) })
		r := b.submit("current", personPassword, "new", "a new password")
		done()
		if r.status != tt.status {
			t.Errorf("%s: %s", what, r)
		}
		if tt.status != http.StatusOK {
			n := 0
			for _, err := range h.store.Sessions(t.Context(), subject) {
				h.must(err)
				n++
			}
			if n != tt.left {
				t.Errorf("%s: %d sessions are stored, want %d", what, n, tt.left)
			}
		}
	}
}

// TestLastWay: what is left when an account at a provider goes counts as a way to sign in if it is
// one: a password that is used here, a passkey, an account at a provider of now.
func TestLastWay(t *testing.T) {
	t.Parallel()
	for what, tt := range map[string]struct {
		person func(p *atProvider, u *storage.User)
		config func(*authz.Config)
		last   bool
	}{
		"a password":                  {},
		"none":                        {person: func(_ *atProvider, u *storage.User) { u.Password = "" }, last: true},
		"a password that is not used": {config: func(c *authz.Config) { c.NoPasswords = true }, last: true},
		"a passkey": {person: func(_ *atProvider, u *storage.User) {
			u.Password, u.Passkeys = "", []storage.Passkey{{ID: []byte("1")}}
		}},
		"another provider": {person: func(p *atProvider, u *storage.User) {
			u.Password, u.Identities = "", append(u.Identities, storage.Identity{Provider: "other", Issuer: p.other.URL(), Subject: "1"})
		}},
		"a former provider": {person: func(_ *atProvider, u *storage.User) {
			u.Password, u.Identities = "", append(u.Identities, storage.Identity{Provider: "former", Issuer: "https://former.example.com", Subject: "1"})
		}, last: true},
	} {
		p := newAtProvider(t, nil)
		b := p.connected(p.company, "company")
		if tt.person != nil {
			p.changeUser(func(u *storage.User) { tt.person(p, u) })
		}
		if tt.config != nil {
			tt.config(&p.cfg)
			p.restart()
		}
		page := b.open(p.issuer + "/account/providers")
		id := string(p.aliasAt("1"))
		if slices.Contains(page.buttons("disconnect"), id) == tt.last {
			t.Errorf("%s: last %t, and the buttons are %q", what, tt.last, page.buttons("disconnect"))
		}
		r := b.post(p.issuer+"/account/providers", form("csrf", page.csrf(), "disconnect", id))
		if want := map[bool]int{true: http.StatusConflict, false: http.StatusSeeOther}[tt.last]; r.status != want {
			t.Errorf("%s: %s", what, r)
		}
	}
}

// TestLastWayOfSomebodyOfAProvider: a password is no way to sign in under the name of a provider.
func TestLastWayOfSomebodyOfAProvider(t *testing.T) {
	t.Parallel()
	p := newAtProvider(t, nil)
	b := p.newBrowser()
	b.arrive(p.company, "company", asks(testClients()["native"]))
	user := p.user(t, adaName)
	user.Password = personHash
	p.must(p.store.UpdateUser(t.Context(), user))
	p.clock.advance(time.Second)
	page := b.open(p.issuer + "/account/providers")
	mustShow(t, b.post(p.issuer+"/account/providers", form("csrf", page.csrf(), "disconnect", string(p.aliasAt("1")))), http.StatusConflict, "invalid_request")
}
