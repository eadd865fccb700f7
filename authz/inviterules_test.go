package authz_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"gatehouse.example/authz/admin"
	"gatehouse.example/storage"
)

// meanwhile lets change happen just before the next record of a kind is written, until done.
func (h *harness) meanwhile(kind string, change func()) (done func()) {
	h.meter.once(&h.meter.before, "put", kind, change)
	return func() { h.meter.before.Store(nil) }
}

// reset makes a one-time link for the person of the tests, and opens it in a new browser.
func (h *harness) reset(l admin.Link) *browser {
	h.t.Helper()
	l.For, l.Now = time.Hour, h.clock.Now()
	made, err := admin.Reset(h.t.Context(), h.store, personName, l)
	h.must(err)
	return h.newBrowser().at(h.issuer + "/invite?token=" + made.Token)
}

// TestLinkIsOfOneTokenAndBrowser: another token for the same person is no link; the form of one link
// is nothing for another one in the same browser; and the cookie with the token ends with its use.
func TestLinkIsOfOneTokenAndBrowser(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	link := h.invited("ada")
	at := strings.Index(link, "gate_in_") + len("gate_in_")
	for _, wrong := range []string{link[:at] + strings.Repeat("A", 43) + link[at+43:], strings.ToUpper(link[at:]), strings.Replace(link, ".ada", ".ADA", 1)} {
		if !strings.HasPrefix(wrong, h.issuer) {
			wrong = link[:at] + wrong
		}
		wantRefusal(t, wrong, h.newBrowser().open(wrong), http.StatusBadRequest, "does not work any more")
	}
	b := h.newBrowser()
	if c := cookiesOf(t, b.open(link))["__Host-"+cookieName(h.issuer, "authz_invite")]; c == nil || c.MaxAge != 3600 {
		t.Errorf("the cookie of the link: %+v", c)
	}
	first := b.at(link).page
	b.at(h.invited("bob"))
	b.page = first
	wantRefusal(t, "the form of another link", b.submitOther("do", "password", "new", "a good password"), http.StatusForbidden, "cannot be accepted")
	r := b.at(link).submitOther("do", "password", "new", "a good password")
	mustSignIn(t, "the link", r)
	if c := cookiesOf(t, r)["__Host-"+cookieName(h.issuer, "authz_invite")]; c == nil || c.MaxAge >= 0 {
		t.Errorf("the cookie of the link stays: %+v", c)
	}
	mustShow(t, h.newBrowser().at(h.invited("eve")).submitOther("do", "nothing"), http.StatusBadRequest, "invalid_request")
}

// TestLinkIsOnRecord: what was made with a link is in the log and on the person's list, and the
// session is one of that method.
func TestLinkIsOnRecord(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	mustSignIn(t, "a password", h.newBrowser().at(h.invited("ada")).submitOther("do", "password", "new", "a good password"))
	h.wantLogged(`msg="one-time link used" user=ada sub=` + h.subjectOf("ada") + " method=password")
	if got := h.happened("ada"); !slices.Equal(got, []string{"password-changed"}) {
		t.Errorf("what happened: %q", got)
	}
	bob := h.newBrowser().at(h.invited("bob"))
	u, _ := h.store.User(t.Context(), "bob")
	mustSignIn(t, "a passkey", bob.answer(newPasskey(u), nil))
	h.wantLogged(`msg="one-time link used" user=bob sub=` + u.Subject + " method=passkey")
	if got := h.happened("bob"); !slices.Equal(got, []string{"passkey-added Passkey 1"}) {
		t.Errorf("what happened: %q", got)
	}
	for session, err := range h.store.Sessions(t.Context(), u.Subject) {
		if err != nil || session.Method != "passkey" {
			t.Errorf("a session of the method %q, %v", session.Method, err)
		}
	}
}

// TestLinkEndsSessions: the use of a link ends the sessions that began since it was made, and one of
// another person in the browser is not taken for the person of the link.
func TestLinkEndsSessions(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	h.addPerson("writer")
	_, k := h.withPasskey()
	link := h.reset(admin.Link{})
	thief := h.atSignIn()
	mustSignIn(t, "with the passkey", thief.answer(k, nil))
	mustSignIn(t, "the link", link.submitOther("do", "password", "new", "a good password"))
	if thief.isIn() || !link.isIn() {
		t.Error("the session of before goes on, or there is no new one")
	}
	if got := h.happened(personName); !slices.Equal(got, []string{"password-changed", "passkey-added Passkey 1"}) {
		t.Errorf("what happened: %q", got)
	}

	h = newHarness(t, setup{})
	h.addPerson("writer")
	h.withFactor()
	link = h.reset(admin.Link{})
	page := link.page
	link.signIn("/account", "writer", personPassword)
	link.page = page
	h.clock.advance(time.Second)
	link.submit("new", "a new password")
	if r := link.follow(); r.url.Path != "/login" || !strings.Contains(r.body, `name="password"`) {
		t.Errorf("the session of another person is enough: %s", r)
	}
}

// TestLinkMakesWhatSignsIn: a link makes a password or a passkey where one would sign the person in,
// and no passkey that leads around a second factor, on whichever page the form was.
func TestLinkMakesWhatSignsIn(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	h.withFactor()
	h.cfg.NoPasswords = true
	h.restart()
	link := h.reset(admin.Link{})
	wantOn(t, "without passwords", link.page, "data-passkey", `!name="new"`)
	wantRefusal(t, "a password", link.submitOther("do", "password", "new", "a good password"), http.StatusForbidden, "Passwords are not used here")
	link = h.reset(admin.Link{})
	mustSignIn(t, "a passkey beside a factor that is not asked for", link.answer(newPasskey(h.person()), nil))

	at := newHarness(t, setup{issuer: loopbackIssuer})
	link = at.newBrowser().at(at.invited("ada"))
	wantOn(t, "at an address", link.page, "!data-passkey", `name="new"`)
	mustShow(t, link.submit("do", "add", "credential", "{}"), http.StatusForbidden, "invalid_request")

	h = newHarness(t, setup{})
	h.withFactor()
	link = h.reset(admin.Link{})
	mustShow(t, link.submit("do", "add", "credential", "{}"), http.StatusForbidden, "invalid_request")
	factor := h.person().SecondFactor
	link = h.reset(admin.Link{DropSecondFactor: true})
	k := newPasskey(h.person())
	done := h.meanwhile("user", func() { h.changeUser(func(u *storage.User) { u.SecondFactor = factor }) })
	wantRefusal(t, "a factor that comes meanwhile", link.answer(k, nil), http.StatusBadRequest, "does not work any more")
	done()
	if len(h.person().Passkeys) != 0 {
		t.Errorf("%d passkeys", len(h.person().Passkeys))
	}
}

// TestLinkRaced: a link counts for the person and the token that there are when the record is written.
func TestLinkRaced(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]func(h *harness){
		"another person":  func(h *harness) { h.changeUser(func(u *storage.User) { u.Subject = "another" }) },
		"disabled":        func(h *harness) { h.changeUser(func(u *storage.User) { u.Disabled = true }) },
		"another link":    func(h *harness) { h.reset(admin.Link{}) },
		"the person left": func(h *harness) { h.must(admin.RemoveUser(t.Context(), h.store, personName)) },
	} {
		for _, do := range []string{"password", "passkey"} {
			h := newHarness(t, setup{})
			link := h.reset(admin.Link{})
			k := newPasskey(h.person())
			done := h.meanwhile("user", func() { change(h) })
			var r reply
			if do == "password" {
				r = link.submitOther("do", "password", "new", "a good password")
			} else {
				r = link.answer(k, nil)
			}
			done()
			if r.status != http.StatusBadRequest || link.isIn() {
				t.Errorf("%s, %s: %s", what, do, r)
			}
		}
	}
}

// TestLinkWithTheAnswerOfAnother: a passkey that was made on the page of one browser is no answer to
// the page of another one.
func TestLinkWithTheAnswerOfAnother(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	link := h.invited("ada")
	here, there := h.newBrowser().at(link), h.newBrowser().at(link)
	u, _ := h.store.User(t.Context(), "ada")
	k := newPasskey(u)
	_, options, _ := there.page.prompt(t)
	action, _, values := here.page.prompt(t)
	values.Set("credential", k.make(t, options))
	wantRefusal(t, "the answer of another browser", here.post(action, values), http.StatusBadRequest, "Nothing was changed")
	h.wantLogged("the challenge is not of this page")
	if u, _ = h.store.User(t.Context(), "ada"); len(u.Passkeys) != 0 || u.Invitation == nil {
		t.Errorf("the link was used: %+v", u)
	}
}
