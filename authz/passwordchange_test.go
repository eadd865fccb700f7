package authz_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gatehouse.example/authz/admin"
	"gatehouse.example/internal/passwords"
	"gatehouse.example/storage"
)

// TestChangePassword: the current password is needed, the other sessions end, and this one goes on.
func TestChangePassword(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	other, b := h.signedInAt("/account/password"), h.signedInAt("/account/password")
	page := b.page
	for what, r := range map[string]reply{
		"a wrong password": b.submit("current", "not it", "new", "a new password"),
		"a short one":      b.submit("current", personPassword, "new", "1234567"),
		"none":             b.submit("new", "a new password"),
	} {
		if r.status != http.StatusForbidden && r.status != http.StatusBadRequest || h.person().Password != personHash {
			t.Errorf("%s: %s", what, r)
		}
	}
	b.page = page
	if r := b.submit("current", personPassword, "new", "a new password"); r.status != http.StatusOK {
		t.Fatal(r)
	}
	if other.isIn() || !b.isIn() {
		t.Error("the other session goes on, or this one does not")
	}
	again := h.atSignIn()
	wantRefusal(t, "the old password", again.submit("username", personName, "password", personPassword), http.StatusForbidden, "not right")
	mustSignIn(t, "the new one", again.submit("username", personName, "password", "a new password"))
}

// TestRehash: the right password replaces a hash that took little work. Sessions go on, and the
// browser stays known.
func TestRehash(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{rehash: true})
	wantRefusal(t, "a wrong one", h.atSignIn().submit("username", personName, "password", "x"), http.StatusForbidden, "not right")
	before := h.person()
	if before.Password != personHash {
		t.Fatal("a wrong password replaces the hash")
	}
	b := h.signedInAt("/account/password")
	after := h.person()
	if passwords.NeedsRehash(after.Password) || !passwords.Check(after.Password, personPassword) || after.SessionEpoch != before.SessionEpoch || !b.isIn() {
		t.Errorf("after the right one: %+v", after)
	}
	mustSignIn(t, "again", h.atSignIn().submit("username", personName, "password", personPassword))
	if h.person().Password != after.Password {
		t.Error("a good hash is replaced")
	}
}

// invited makes a one-time link for a new person, and returns it.
func (h *harness) invited(name string) string {
	h.t.Helper()
	invitation, err := admin.Invite(h.t.Context(), h.store, name, admin.Link{For: time.Hour, Now: h.clock.Now()})
	if err != nil {
		h.t.Fatal(err)
	}
	return h.issuer + "/invite?token=" + invitation.Token
}

// at opens a link, up to its page.
func (b *browser) at(link string) *browser {
	b.h.t.Helper()
	b.open(link)
	if b.last.status == http.StatusSeeOther {
		b.follow()
	}
	return b
}

// TestInvite: a link lets a person choose a password or make a passkey, once. The address of the
// page has no token.
func TestInvite(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	link := h.invited("ada")
	for _, password := range []string{"", "x", personPassword} {
		wantRefusal(t, "before the link is used", h.atSignIn().submit("username", "ada", "password", password), http.StatusForbidden, "not right")
	}
	b := h.newBrowser().at(link)
	if b.page.url.RawQuery != "" || strings.Contains(b.page.body, "gate_in_") {
		t.Errorf("the page shows the token: %s", b.page.url)
	}
	if faults := pageFaults(b.page, http.StatusOK); len(faults) > 0 {
		t.Error(strings.Join(faults, "\n"))
	}
	page := b.page
	wantRefusal(t, "a short password", b.submitOther("do", "password", "new", "short"), http.StatusBadRequest, "at least 8")
	b.page = page
	mustSignIn(t, "choosing", b.submitOther("do", "password", "new", "a good password"))
	if !b.isIn() {
		t.Error("the person is not signed in")
	}
	mustSignIn(t, "later", h.atSignIn().submit("username", "ada", "password", "a good password"))
	wantRefusal(t, "the link again", h.newBrowser().open(link), http.StatusBadRequest, "does not work any more")

	bob := h.newBrowser().at(h.invited("bob"))
	u, _ := h.store.User(t.Context(), "bob")
	k := newPasskey(u)
	mustSignIn(t, "a passkey", bob.answer(k, nil))
	mustSignIn(t, "with it", h.atSignIn().answer(k, nil))
}

// submitOther sends the values of the form for passkeys, with others: forms of one page share their
// token.
func (b *browser) submitOther(pairs ...string) reply {
	b.h.t.Helper()
	action, _, values := b.page.prompt(b.h.t)
	return b.post(action, replaced(values, pairs...))
}

// TestInviteRaced: of ten answers to one link one counts.
func TestInviteRaced(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	link := h.invited("ada")
	var all sync.WaitGroup
	var in atomic.Int64
	var browsers []*browser
	for range 10 {
		browsers = append(browsers, h.newBrowser().at(link))
	}
	for i, b := range browsers {
		all.Go(func() {
			if b.submitOther("do", "password", "new", fmt.Sprint("password ", i)).status == http.StatusSeeOther {
				in.Add(1)
			}
		})
	}
	all.Wait()
	if in.Load() != 1 {
		t.Errorf("%d answers to one link count", in.Load())
	}
}

// TestInviteEnds: a link ends with its time, with a newer one, with its person, and it is no use
// with another token or in a form of another browser.
func TestInviteEnds(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	over := func(what, link string) {
		t.Helper()
		wantRefusal(t, what, h.newBrowser().open(link), http.StatusBadRequest, "does not work any more")
	}
	link := h.invited("ada")
	for _, wrong := range []string{link + "x", link[:len(link)-1], strings.Replace(link, ".ada", ".reader", 1), h.issuer + "/invite?token=x", h.issuer + "/invite", h.issuer + "/invite?token=" + strings.Repeat("x", 4000)} {
		over(wrong[:min(len(wrong), 80)], wrong)
	}
	open := h.newBrowser().at(link)
	token := form("token", strings.TrimPrefix(link, h.issuer+"/invite?token="))
	wantRefusal(t, "without its page", h.newBrowser().post(h.issuer+"/invite", replaced(token, "do", "password", "new", "a good password")), http.StatusBadRequest, "does not work any more")
	wantRefusal(t, "with another token", open.submitOther("do", "password", "new", "a good password", "csrf", "x"), http.StatusForbidden, "cannot be accepted")
	if err := admin.SetPassword(t.Context(), h.store, "ada", "a password of the operator"); err != nil {
		t.Fatal(err)
	}
	over("after another password", link)
	reset, err := admin.Reset(t.Context(), h.store, "ada", admin.Link{For: time.Hour, Now: h.clock.Now()})
	if err != nil {
		t.Fatal(err)
	}
	link = h.issuer + "/invite?token=" + reset.Token
	h.clock.advance(time.Hour)
	over("after its time", link)
	link = h.invited("bob")
	if err := admin.DisableUser(t.Context(), h.store, "bob"); err != nil {
		t.Fatal(err)
	}
	over("of a disabled person", link)
}

// TestReset: it ends the password and the sessions at once. A second factor that stays is asked for
// after the link, which makes no passkey then.
func TestReset(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	b, app, _ := h.withFactor()
	reset := func(l admin.Link) *browser {
		l.For, l.Now = time.Hour, h.clock.Now()
		made, err := admin.Reset(t.Context(), h.store, personName, l)
		if err != nil {
			t.Fatal(err)
		}
		return h.newBrowser().at(h.issuer + "/invite?token=" + made.Token)
	}
	at := reset(admin.Link{})
	if b.isIn() {
		t.Error("the session goes on")
	}
	wantRefusal(t, "the old password", h.atSignIn().submit("username", personName, "password", personPassword), http.StatusForbidden, "not right")
	if strings.Contains(at.page.body, "data-passkey") {
		t.Error("the link leads around the second factor")
	}
	if r := at.submit("new", "a new password"); !strings.Contains(r.header.Get("Location"), "/login?") || at.isIn() {
		t.Fatalf("the link signs in without the second factor: %s", r)
	}
	at.follow()
	at.submit("username", personName, "password", "a new password")
	at.follow()
	mustSignIn(t, "the code", at.submit("code", app.code()))

	at = reset(admin.Link{DropSecondFactor: true, DropPasskeys: true})
	mustSignIn(t, "without second factor", at.submitOther("do", "password", "new", "the newest password"))
	if u := h.person(); !at.isIn() || u.SecondFactor != nil || len(u.Passkeys) != 0 {
		t.Errorf("%+v", u)
	}
}

// TestLinkForNobody: a link for a name that has an account, or for none, is refused.
func TestLinkForNobody(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	link := admin.Link{For: time.Hour, Now: h.clock.Now()}
	if _, err := admin.Invite(t.Context(), h.store, personName, link); err == nil {
		t.Error("a person is invited twice")
	}
	if _, err := admin.Reset(t.Context(), h.store, "nobody", link); err == nil {
		t.Error("nobody is reset")
	}
	if _, err := admin.Invite(t.Context(), h.store, "not a name", link); err == nil {
		t.Error("an impossible name is invited")
	}
	var user storage.User
	if user, _ = h.store.User(t.Context(), "nobody"); user.Name != "" {
		t.Error("somebody was made")
	}
}
