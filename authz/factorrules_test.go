package authz_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"gatehouse.example/authz/admin"
	"gatehouse.example/storage"
)

// atCode returns a browser at the page for the code, after the right password.
func (h *harness) atCode() *browser {
	h.t.Helper()
	b := h.atSignIn()
	b.submit("username", personName, "password", personPassword)
	if r := b.follow(); r.status != http.StatusOK {
		h.t.Fatalf("no page for the code: %s", r)
	}
	return b
}

// TestPendingIsJudgedTwice: whoever was disabled or changed how to sign in begins again, and is let in
// neither if that happens while the code is checked.
func TestPendingIsJudgedTwice(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]func(*harness){
		"disabled":         func(h *harness) { h.changeUser(func(u *storage.User) { u.Disabled = true }) },
		"signed out":       func(h *harness) { h.changeUser(func(u *storage.User) { u.SessionEpoch++ }) },
		"no second factor": func(h *harness) { h.changeUser(func(u *storage.User) { u.SecondFactor = nil }) },
		"another person":   func(h *harness) { h.changeUser(func(u *storage.User) { u.Subject = "another" }) },
		"removed":          func(h *harness) { h.must(admin.RemoveUser(t.Context(), h.store, personName)) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, setup{})
			_, app, _ := h.withFactor()
			b := h.atCode()
			done := h.meanwhile("user", func() { change(h) })
			mustShow(t, b.submit("code", app.code()), http.StatusBadRequest, "invalid_request")
			done()
			for _, r := range []reply{b.submit("code", app.code()), b.open(b.page.url.String())} {
				if r.status != http.StatusSeeOther || !strings.Contains(r.header.Get("Location"), "/login?") {
					t.Errorf("afterwards: %s", r)
				}
			}
			if b.isIn() {
				t.Error("the code signs in")
			}
		})
	}
	h := newHarness(t, setup{})
	_, app, _ := h.withFactor()
	b := h.atCode()
	h.cfg.NoPasswords = true
	h.restart()
	if r := b.submit("code", app.code()); r.status != http.StatusSeeOther || !strings.Contains(r.header.Get("Location"), "/login?") {
		t.Errorf("with passwords off the code signs in: %s", r)
	}
}

// TestFactorIsOnRecord: what happens to a second factor is in the log and on the person's list, to the
// last recovery code. A change that another window made before leads to the page.
func TestFactorIsOnRecord(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	b, _, codes := h.withFactor()
	h.wantLogged(`msg="second factor set up" user=reader sub=` + h.subject())
	h.changeUser(func(u *storage.User) {
		factor := *u.SecondFactor
		factor.Recovery = slices.DeleteFunc(factor.Recovery, func(s storage.SecretHash) bool { return !s.Matches(strings.ReplaceAll(codes[0], "-", "")) })
		u.SecondFactor = &factor
	})
	if n := len(h.person().SecondFactor.Recovery); n != 1 {
		t.Fatalf("%d recovery codes", n)
	}
	mustSignIn(t, "the last recovery code", h.atCode().submit("code", codes[0]))
	h.wantLogged(`level=WARN msg="recovery code used" user=reader sub=` + h.subject() + " left=0")
	h.clock.advance(time.Second)
	b.open(h.issuer + "/account/second-factor")
	b.submit("do", "recovery")
	h.wantLogged(`msg="recovery codes renewed" user=reader sub=` + h.subject())
	b.open(h.issuer + "/account/second-factor")
	page := b.page
	mustSignIn(t, "removing", b.submit("do", "remove"))
	h.wantLogged(`msg="second factor removed" user=reader sub=` + h.subject())
	if got := h.happened(personName); !slices.Equal(got, []string{"second-factor-off", "recovery-codes-renewed", "recovery-code-used", "second-factor-on"}) {
		t.Errorf("what happened: %q", got)
	}
	b.follow()
	for _, do := range []string{"remove", "recovery"} {
		before := h.person()
		values := form("csrf", b.page.csrf(), "do", do)
		if r := b.post(page.url.String(), values); r.status != http.StatusSeeOther || !strings.HasSuffix(r.header.Get("Location"), "/account/second-factor") {
			t.Errorf("%s where there is none: %s", do, r)
		}
		if after := h.person(); after.SessionEpoch != before.SessionEpoch || after.SecondFactor != nil {
			t.Errorf("%s where there is none changes %+v", do, after)
		}
	}
	mustShow(t, b.post(page.url.String(), form("csrf", b.page.csrf(), "do", "x")), http.StatusBadRequest, "invalid_request")
}

// TestFactorIsOfItsPage: the key on the page of one session sets up nothing in another; one that was
// set up meanwhile stays; and there is none without a password.
func TestFactorIsOfItsPage(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	b, other := h.signedInAt("/account/second-factor"), h.signedInAt("/account/second-factor")
	keyOf := func(b *browser) (app, string) {
		_, values := b.page.inputs(t)
		return app{h, secretOn(t, b.page)}, values.Get("setup")
	}
	mine, _ := keyOf(b)
	theirs, setUp := keyOf(other)
	page := b.page
	mustShow(t, b.submit("setup", setUp, "code", theirs.code()), http.StatusForbidden, "invalid_request")
	b.page = page
	done := h.meanwhile("user", func() {
		h.changeUser(func(u *storage.User) { u.SecondFactor = &storage.SecondFactor{Created: h.clock.Now()} })
	})
	r := b.submit("code", mine.code())
	done()
	if r.status != http.StatusSeeOther || !strings.HasSuffix(r.header.Get("Location"), "/account/second-factor") || len(h.person().SecondFactor.Recovery) != 0 {
		t.Errorf("one that was set up meanwhile: %s", r)
	}
	h = newHarness(t, setup{})
	b = h.signedInAt("/account/second-factor")
	mine, _ = keyOf(b)
	mine.h = h
	h.changeUser(func(u *storage.User) { u.Password = "" })
	mustShow(t, b.submit("code", mine.code()), http.StatusBadRequest, "invalid_request")
	wantRefusal(t, "without a password", b.open(h.issuer+"/account/second-factor"), http.StatusBadRequest, "You need no second factor")
	if h.person().SecondFactor != nil {
		t.Error("there is a second factor without a first one")
	}
}

// TestRightOnesCostNothing: right passkeys and codes, and those that a store without an answer met, use
// up nothing of what may fail. What failed does, and then nothing is read for it.
func TestRightOnesCostNothing(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{config: behindProxy})
	signed, k := h.withPasskey()
	known := signed.withoutSession()
	for range 40 { // more than may fail
		b := h.atSignIn()
		mustSignIn(t, "a right passkey", b.answer(k, nil))
	}
	b := h.atSignIn()
	down := h.meanwhile("user", func() { h.faults.SetDown(true) })
	r := b.answer(k, nil)
	down()
	h.faults.SetDown(false)
	mustShow(t, r, http.StatusServiceUnavailable, "temporarily_unavailable")
	wrong := newPasskey(h.person())
	b = h.atSignIn()
	action, options, values := b.page.prompt(t)
	refused := 0
	for range 40 {
		values.Set("credential", wrong.sign(t, options))
		if b.post(action, values).status == http.StatusForbidden {
			refused++
		}
	}
	if refused != 30 {
		t.Errorf("%d passkeys were refused before the network had to wait; want 30", refused)
	}
	trips := h.roundTrips.Load()
	mustWait(t, "a stranger", b.post(action, values))
	if n := h.roundTrips.Load() - trips; n != 0 {
		t.Errorf("a network that has to wait costs %d round trips", n)
	}
	known.open(h.issuer + "/authorize?" + asks(testClients()["native"]).Encode())
	known.follow()
	mustSignIn(t, "a browser that is known", known.answer(k, nil))
	known.withoutSession().open(h.issuer + "/authorize?" + asks(testClients()["native"]).Encode())
	known.follow()
	mustWait(t, "a passkey of nobody in it", known.answer(wrong, nil))
}

// TestRightCodesCostNothing is the same for codes.
func TestRightCodesCostNothing(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	_, app, _ := h.withFactor()
	for range 20 { // more than may fail in that time
		mustSignIn(t, "a right code", h.atCode().submit("code", app.code()))
		h.clock.advance(30 * time.Second)
	}
	b := h.atCode()
	down := h.meanwhile("user", func() { h.faults.SetDown(true) })
	r := b.submit("code", app.code())
	down()
	h.faults.SetDown(false)
	mustShow(t, r, http.StatusServiceUnavailable, "temporarily_unavailable")
	failed := 0
	b = h.atCode()
	for range 20 {
		if b.submit("code", fmt.Sprintf("%06d", 0)).status == http.StatusForbidden {
			failed++
		}
	}
	if failed != 10 {
		t.Errorf("%d codes were refused before the network had to wait; want 10", failed)
	}
}

// TestUnreadableFactorCostsNothing: while no master key opens the second factor of a person, no code is
// compared, so none uses up an attempt.
func TestUnreadableFactorCostsNothing(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	_, app, _ := h.withFactor()
	b, kept := h.atCode(), h.person().SecondFactor
	h.changeUser(func(u *storage.User) {
		spoilt := *u.SecondFactor
		spoilt.Secret = slices.Clone(spoilt.Secret)
		spoilt.Secret[len(spoilt.Secret)-1] ^= 1
		u.SecondFactor = &spoilt
	})
	for range 40 { // more than may fail
		if r := b.submit("code", app.code()); r.status != http.StatusServiceUnavailable && r.status != http.StatusInternalServerError {
			t.Fatalf("a factor that cannot be read: %s", r)
		}
	}
	h.changeUser(func(u *storage.User) { u.SecondFactor = kept })
	mustSignIn(t, "with one that can", b.submit("code", app.code()))
}
