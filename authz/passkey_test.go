package authz_test

import (
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"gatehouse.example/storage"
)

// TestPasskey: a passkey that was made on its page signs in without a name, up to the client.
func TestPasskey(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	_, k := h.withPasskey()
	b := h.atSignIn()
	if r := b.answer(k, nil); r.status != http.StatusSeeOther {
		t.Fatal(r)
	}
	b.follow()
	if b.submit("decision", "allow").location(t).Query().Get("code") == "" {
		t.Errorf("no code: %s", b.last)
	}
	u := h.person()
	if p := u.Passkeys[0]; p.SignCount != 1 || p.Used.IsZero() || p.Name != "Passkey 1" {
		t.Errorf("stored %+v", p)
	}
	for session, err := range h.store.Sessions(t.Context(), u.Subject) {
		if err != nil || session.Method == "" {
			t.Errorf("a session of no method: %+v, %v", session, err)
		}
	}
}

// TestPasskeyRefused: no session begins with an answer that another page, browser, person or key
// gave.
func TestPasskeyRefused(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	_, k := h.withPasskey()
	refuse := func(what string, b *browser, k *key, change func(url.Values)) {
		t.Helper()
		r := b.answer(k, change)
		if r.status == http.StatusSeeOther || b.isIn() {
			t.Errorf("%s signs in: %s", what, r)
		}
	}
	elsewhere, wrongHost := *k, *k
	elsewhere.at.Origin, wrongHost.at.ID = "https://evil.example.org", "example.com"
	refuse("a page elsewhere", h.atSignIn(), &elsewhere, nil)
	refuse("a key for another host", h.atSignIn(), &wrongHost, nil)
	unverified := *k
	unverified.Options.UserNotVerified = true
	refuse("a key that verified nobody", h.atSignIn(), &unverified, nil)
	refuse("a key that nobody has", h.atSignIn(), newPasskey(h.person()), nil)
	bob := *k
	bob.Options.UserHandle = []byte(h.addPerson("bob").Subject)
	refuse("the key of another person", h.atSignIn(), &bob, nil)
	refuse("another form's token", h.atSignIn(), k, func(v url.Values) { v.Set("csrf", "x") })
	refuse("nothing", h.atSignIn(), k, func(v url.Values) { v.Set("credential", "{}") })

	// The answer to a page in one browser, or for one transaction, is worth nothing in another.
	first, second := h.atSignIn(), h.atSignIn()
	_, options, _ := first.page.prompt(t)
	stolen := k.sign(t, options)
	refuse("the answer of another browser", second, k, func(v url.Values) { v.Set("credential", stolen) })
	first.open(h.issuer + "/authorize?" + asks(testClients()["native"]).Encode())
	first.follow()
	refuse("the answer for another transaction", first, k, func(v url.Values) { v.Set("credential", stolen) })
	if !strings.Contains(h.log.String(), "the challenge is not of this page") {
		t.Error("the log does not say why")
	}
}

// TestPasskeyReplay: an answer signs in once, also when it is sent ten times at once.
func TestPasskeyReplay(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	_, k := h.withPasskey()
	h.changeUser(func(u *storage.User) { u.Passkeys[0].SignCount = 0 })
	k.Counter = ^uint32(0) // an authenticator that does not count
	b := h.atSignIn()
	action, options, values := b.page.prompt(t)
	values.Set("credential", k.sign(t, options))
	var all sync.WaitGroup
	var mu sync.Mutex
	in := 0
	for range 10 {
		all.Go(func() {
			r := h.newRequest(http.MethodPost, action, values)
			r.Header.Set("Origin", origin(h.issuer))
			if answer := h.with(b.jar, r); answer.status == http.StatusSeeOther {
				mu.Lock()
				defer mu.Unlock()
				in++
			}
		})
	}
	all.Wait()
	if in != 1 {
		t.Errorf("one answer signs in %d times", in)
	}
	wantRefusal(t, "the answer again", b.post(action, values), http.StatusForbidden, "cannot be used")
}

// TestPasskeyCopy: a counter that goes backwards is a copy of the key.
func TestPasskeyCopy(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	_, k := h.withPasskey()
	k.Counter = 7
	mustSignIn(t, "the key", h.atSignIn().answer(k, nil))
	k.Counter = 3
	wantRefusal(t, "a copy", h.atSignIn().answer(k, nil), http.StatusForbidden, "cannot be used")
	if !strings.Contains(h.log.String(), "went backwards") || h.person().Passkeys[0].SignCount != 8 {
		t.Error("nobody learns of the copy")
	}
}

// TestPasskeyPerson: a passkey ends with its person, and with its removal.
func TestPasskeyPerson(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	b, k := h.withPasskey()
	h.changeUser(func(u *storage.User) { u.Disabled = true })
	wantRefusal(t, "of a disabled person", h.atSignIn().answer(k, nil), http.StatusForbidden, "cannot be used")
	h.changeUser(func(u *storage.User) { u.Disabled = false })
	other := h.signedInAt("/account/password")
	if r := b.submit("do", "remove"); r.status != http.StatusSeeOther || len(h.person().Passkeys) != 0 {
		t.Fatal(r)
	}
	wantRefusal(t, "that was removed", h.atSignIn().answer(k, nil), http.StatusForbidden, "cannot be used")
	if other.isIn() || !b.isIn() {
		t.Error("removing a passkey ends other sessions and not this one")
	}
	b.follow()
	mustSignIn(t, "making it again", b.answer(k, nil))
}

// TestPasskeyNames: several passkeys have names, one key is no second passkey, and nobody takes
// that of another person.
func TestPasskeyNames(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	b, k := h.withPasskey()
	mustSignIn(t, "naming", b.submit("do", "rename", "name", "Blue key"))
	b.follow()
	wantRefusal(t, "no name", b.submit("do", "rename", "name", strings.Repeat("x", 81)), http.StatusBadRequest, "at most 80")
	wantRefusal(t, "the same key again", b.answer(k, nil), http.StatusBadRequest, "Nothing was changed")
	b.open(h.issuer + "/account/passkeys")
	mustSignIn(t, "another key", b.answer(newPasskey(h.person()), nil))
	if got := strings.Join(names(h.person()), ", "); got != "Blue key, Passkey 2" {
		t.Errorf("passkeys %s", got)
	}
	h.addPerson("bob")
	bob := h.newBrowser()
	bob.signIn("/account/passkeys", "bob", personPassword)
	bob.follow()
	wantRefusal(t, "the key of another person", bob.answer(k, nil), http.StatusBadRequest, "Nothing was changed")
	mustSignIn(t, "the owner", h.atSignIn().answer(k, nil))
	for _, do := range []string{"rename", "remove"} {
		wantRefusal(t, "a passkey of nobody", bob.submit("do", do, "id", "AAAA", "name", "x", "csrf", csrfOf(t, bob)), http.StatusBadRequest, "removed already")
	}
}

// csrfOf returns the token of the last page's form for passkeys.
func csrfOf(t *testing.T, b *browser) string {
	t.Helper()
	_, _, values := b.page.prompt(t)
	return values.Get("csrf")
}

// TestNoPasswords: with passwords off no password signs in, and the last passkey stays.
func TestNoPasswords(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	b, k := h.withPasskey()
	h.cfg.NoPasswords = true
	h.restart()
	at := h.atSignIn()
	if strings.Contains(at.page.body, `type="password"`) {
		t.Error("the page asks for a password")
	}
	_, _, values := at.page.prompt(t)
	wantRefusal(t, "a password", at.post(h.issuer+"/login", form("transaction", values.Get("transaction"), "csrf", values.Get("csrf"), "username", personName, "password", personPassword)),
		http.StatusForbidden, "Passwords are not used here")
	mustSignIn(t, "a passkey", at.answer(k, nil))
	b.open(h.issuer + "/account/passkeys")
	wantRefusal(t, "the last one", b.submit("do", "remove"), http.StatusBadRequest, "your only way")
	wantRefusal(t, "choosing a password", b.open(h.issuer+"/account/password"), http.StatusForbidden, "Passwords are not used here")
	wantRefusal(t, "a second factor", b.open(h.issuer+"/account/second-factor"), http.StatusBadRequest, "You need no second factor")
}

// TestPasskeyPages: the pages need a recent sign-in, their own token, and a person of this server.
func TestPasskeyPages(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	paths := []string{"/account/passkeys", "/account/second-factor", "/account/password"}
	b := h.signedInAt(paths[0])
	for _, path := range paths {
		if faults := pageFaults(b.open(h.issuer+path), http.StatusOK); len(faults) > 0 {
			t.Errorf("%s: %s", path, strings.Join(faults, "\n"))
		}
		for _, do := range []string{"add", "remove", "rename", "recovery", ""} {
			r := b.post(h.issuer+path, form("csrf", csrfOf(t, h.signedInAt(paths[0])), "do", do, "new", "another password", "current", personPassword))
			wantRefusal(t, path+" with the token of another browser", r, http.StatusForbidden, "This form cannot be accepted")
		}
	}
	before := h.person()
	h.clock.advance(11 * time.Minute)
	for _, path := range paths {
		for _, r := range []reply{b.open(h.issuer + path), b.post(h.issuer+path, form("do", "remove", "new", "another password"))} {
			if r.status != http.StatusSeeOther || !strings.Contains(r.header.Get("Location"), "/login?") {
				t.Errorf("%s after eleven minutes: %s", path, r)
			}
		}
	}
	if b.submitAgain(); b.last.status != http.StatusSeeOther || h.person().SessionEpoch != before.SessionEpoch {
		t.Error("signing in again does not lead back")
	}
}

// submitAgain signs in at the page to which the last answer redirects.
func (b *browser) submitAgain() reply {
	b.h.t.Helper()
	b.follow()
	return b.submit("username", personName, "password", personPassword)
}

// TestPasskeyOutage: while the store does not answer, nobody is signed in, and nothing is half made.
func TestPasskeyOutage(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	_, k := h.withPasskey()
	b := h.atSignIn()
	h.faults.SetDown(true)
	r := b.answer(k, nil)
	h.faults.SetDown(false)
	if r.status != http.StatusServiceUnavailable || r.header.Get("Retry-After") == "" || b.isIn() {
		t.Errorf("without a store: %s", r)
	}
	mustSignIn(t, "later", b.answer(k, nil))
}

// TestProviderPeopleGetNoKeys: whoever a provider signs in gets no way in of their own, which would
// stay when the provider lets them go.
func TestProviderPeopleGetNoKeys(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	b := h.signedInAt("/account/passkeys")
	before := h.person()
	elsewhere := before
	elsewhere.Name = "company/ada@example.com"
	if err := h.store.CreateUser(t.Context(), elsewhere); err != nil {
		t.Fatal(err)
	}
	for session, err := range h.store.Sessions(t.Context(), before.Subject) {
		if err != nil {
			t.Fatal(err)
		}
		session.UserName = elsewhere.Name
		if err := h.store.UpdateSession(t.Context(), session); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"/account/passkeys", "/account/second-factor", "/account/password"} {
		wantRefusal(t, path, b.open(h.issuer+path), http.StatusForbidden, "You sign in elsewhere")
		wantRefusal(t, path, b.post(h.issuer+path, form("do", "add", "new", "a good password")), http.StatusForbidden, "You sign in elsewhere")
	}
}
