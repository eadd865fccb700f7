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
	"gatehouse.example/storage"
)

// TestSecondFactor: the right password leads to the page for the code, and the code to the client.
func TestSecondFactor(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	_, app, _ := h.withFactor()
	b := h.atSignIn()
	r := b.submit("username", personName, "password", personPassword)
	if !strings.Contains(r.header.Get("Location"), "/login/code?transaction=") || b.isIn() {
		t.Fatalf("the password alone: %s", r)
	}
	b.follow()
	if faults := pageFaults(b.last, http.StatusOK); len(faults) > 0 {
		t.Error(strings.Join(faults, "\n"))
	}
	wantRefusal(t, "a wrong code", b.submit("code", "000000"), http.StatusForbidden, "This code is not right")
	if b.isIn() {
		t.Error("a wrong code signs in")
	}
	mustSignIn(t, "the code", b.submit("code", app.code()))
	b.follow()
	if b.submit("decision", "allow").location(t).Query().Get("code") == "" {
		t.Errorf("no code for the client: %s", b.last)
	}
	if !strings.Contains(h.log.String(), "second factor refused after the right password") {
		t.Error("the log does not speak of the wrong code")
	}
}

// TestPasswordAloneOpensNothing: a person with a second factor is in no case signed in by the
// password, whatever the request was and whatever the browser did before.
func TestPasswordAloneOpensNothing(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	b, app, _ := h.withFactor()
	alone := func(what string, b *browser) {
		t.Helper()
		if r := b.submit("username", personName, "password", personPassword); !strings.Contains(r.header.Get("Location"), "/login/code?") {
			t.Errorf("%s: %s", what, r)
		}
		for _, page := range []string{"/account/password", "/account/passkeys"} {
			if r := b.h.with(b.jar, h.newRequest(http.MethodGet, h.issuer+page, nil)); r.status == http.StatusOK {
				t.Errorf("%s: the password opens %s", what, page)
			}
		}
		consent := h.issuer + "/consent?" + b.page.url.RawQuery
		if r := b.h.with(b.jar, h.newRequest(http.MethodGet, consent, nil)); r.status == http.StatusOK {
			t.Errorf("%s: the password opens the consent page", what)
		}
	}
	alone("a new browser", h.atSignIn())
	known := b.withoutSession()
	known.open(h.issuer + "/authorize?" + asks(testClients()["native"]).Encode())
	known.follow()
	alone("a browser with a device cookie", known)
	forced := h.newBrowser()
	forced.open(h.issuer + "/authorize?" + replaced(asks(testClients()["native"]), "prompt", "login").Encode())
	forced.follow()
	alone("prompt=login", forced)
	account := h.newBrowser()
	account.open(h.issuer + "/account/password")
	account.follow()
	alone("the way to the account", account)

	// Two windows of one browser, each at its own step.
	tabs := h.atSignIn()
	first := tabs.page
	tabs.open(h.issuer + "/authorize?" + asks(testClients()["native"]).Encode())
	tabs.follow()
	second := tabs.page
	tabs.page = first
	alone("the first window", tabs)
	tabs.page = second
	alone("the second window", tabs)
	tabs.open(h.issuer + "/login/code?" + first.url.RawQuery)
	mustSignIn(t, "the code in the first window", tabs.submit("code", app.code()))

	if err := admin.SetPassword(t.Context(), h.store, personName, personPassword); err != nil {
		t.Fatal(err)
	}
	alone("after a new password", h.atSignIn())
}

// TestCodeOnce: a code signs in once, also at ten places at once, and no earlier one after it.
func TestCodeOnce(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	_, app, codes := h.withFactor()
	for what, next := range map[string]func() string{
		"a code":          app.code,
		"a recovery code": func() string { return strings.ToUpper(strings.ReplaceAll(codes[3], "-", "")) },
	} {
		code := next()
		var in atomic.Int64
		var all sync.WaitGroup
		for range 10 {
			b := h.atSignIn()
			b.submit("username", personName, "password", personPassword)
			b.follow()
			all.Go(func() {
				if b.submit("code", code).status == http.StatusSeeOther {
					in.Add(1)
				}
			})
		}
		all.Wait()
		if in.Load() != 1 {
			t.Errorf("%s signs in %d times", what, in.Load())
		}
		h.clock.advance(time.Hour)
	}
	if left := len(h.person().SecondFactor.Recovery); left != 9 || !strings.Contains(h.log.String(), "recovery code used") {
		t.Errorf("%d recovery codes are left", left)
	}
}

// TestPendingEnds: what a right password was worth ends when the person is disabled or changes how
// to sign in, after ten minutes, and in another browser.
func TestPendingEnds(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]func(*harness){
		"disabled":         func(h *harness) { h.changeUser(func(u *storage.User) { u.Disabled = true }) },
		"another password": func(h *harness) { _ = admin.SetPassword(t.Context(), h.store, personName, "another one") },
		"no second factor": func(h *harness) { h.changeUser(func(u *storage.User) { u.SecondFactor = nil }) },
		"another person":   func(h *harness) { h.changeUser(func(u *storage.User) { u.Subject = "another" }) },
		"ten minutes":      func(h *harness) { h.clock.advance(10 * time.Minute) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, setup{})
			_, app, _ := h.withFactor()
			b := h.atSignIn()
			b.submit("username", personName, "password", personPassword)
			b.follow()
			change(h)
			r := b.submit("code", app.code())
			if r.status == http.StatusSeeOther && !strings.Contains(r.header.Get("Location"), "/login?") || b.isIn() {
				t.Errorf("the code still signs in: %s", r)
			}
		})
	}
	h := newHarness(t, setup{})
	_, app, _ := h.withFactor()
	b, other := h.atSignIn(), h.atSignIn()
	b.submit("username", personName, "password", personPassword)
	b.follow()
	other.page = b.page
	if r := other.submit("code", app.code()); r.status == http.StatusSeeOther || other.isIn() {
		t.Errorf("another browser goes on: %s", r)
	}
	wantRefusal(t, "a token of the sign-in form", b.submit("code", app.code(), "csrf", "x"), http.StatusForbidden, "This form cannot be accepted")
}

// TestCodesAreNotGuessed: who knows the password has few guesses, from however many networks, and
// the person can sign in with a browser that is known.
func TestCodesAreNotGuessed(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{config: behindProxy})
	before := h.signedInAt("/account/password")
	known, app, _ := h.withFactor()
	h.countComparisons()
	guesses := 0
	for i := range 40 {
		b := h.atSignIn()
		b.submit("username", personName, "password", personPassword)
		b.follow()
		_, values := b.page.inputs(t)
		values.Set("code", "000000")
		r := h.newRequest(http.MethodPost, h.issuer+"/login/code", values)
		r.Header.Set("Origin", origin(h.issuer))
		r.Header.Set("X-Forwarded-For", fmt.Sprintf("10.%d.0.7", i))
		answer := h.with(b.jar, r)
		if answer.status == http.StatusForbidden {
			guesses++
		} else {
			mustWait(t, "a guess too many", withSeconds(answer))
		}
	}
	if guesses > 15 || guesses < 5 {
		t.Errorf("%d guesses in an hour", guesses)
	}
	before.withoutSession().signIn("/account/password", personName, personPassword)
	before.follow()
	mustWait(t, "a browser that was known by the password alone", withSeconds(before.submit("code", "000000")))
	b := known.withoutSession()
	b.signIn("/account/password", personName, personPassword)
	b.follow()
	mustSignIn(t, "the person in a known browser", b.submit("code", app.code()))
}

// withSeconds lets mustWait accept a wait that is longer than that of a password.
func withSeconds(r reply) reply {
	r.header.Set("Retry-After", "1")
	return r
}

// TestFactorPage: a second factor needs a right code, ends other sessions, and a browser that was
// known by the password alone is known no more. It can be removed, and its codes renewed.
func TestFactorPage(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	other := h.signedInAt("/account/second-factor")
	wrong := h.signedInAt("/account/second-factor")
	wantRefusal(t, "a wrong code", wrong.submit("code", "000000"), http.StatusBadRequest, "This code is not right")
	if h.person().SecondFactor != nil {
		t.Fatal("a wrong code sets it up")
	}
	setUp := other.page
	b, app, codes := h.withFactor()
	if other.isIn() || wrong.isIn() || !b.isIn() {
		t.Error("setting up ends the other sessions and keeps this one")
	}
	other.page = setUp
	if r := other.submit("code", "123456"); r.status != http.StatusSeeOther {
		t.Errorf("the page from before: %s", r)
	}
	if bytesIn(h.person().SecondFactor.Secret, app.secret) {
		t.Error("the secret is stored in the clear")
	}
	b.open(h.issuer + "/account/second-factor")
	r := b.submit("do", "recovery")
	if r.status != http.StatusOK || strings.Contains(r.body, codes[0]) || strings.Count(r.body, "<li><code>") != 10 {
		t.Fatalf("new codes: %s", r)
	}
	at := h.atSignIn()
	at.submit("username", personName, "password", personPassword)
	at.follow()
	wantRefusal(t, "an old recovery code", at.submit("code", codes[0]), http.StatusForbidden, "This code is not right")
	b.open(h.issuer + "/account/second-factor")
	mustSignIn(t, "removing", b.submit("do", "remove"))
	if h.person().SecondFactor != nil || !b.isIn() {
		t.Error("it is not removed")
	}
}

func bytesIn(whole, part []byte) bool { return strings.Contains(string(whole), string(part)) }
