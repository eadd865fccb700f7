package authz_test

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"gatehouse.example/authz/admin"
	"gatehouse.example/storage"
)

var shownChallenge = regexp.MustCompile(`"challenge":"([^"]*)"`)

// withOtherNonce returns options for a passkey whose challenge has the code of the page and another
// random part.
func withOtherNonce(t *testing.T, options string) string {
	t.Helper()
	shown := shownChallenge.FindStringSubmatch(options)[1]
	challenge, err := base64.RawURLEncoding.DecodeString(shown)
	if err != nil {
		t.Fatal(err)
	}
	challenge[0] ^= 1
	return strings.Replace(options, shown, base64.RawURLEncoding.EncodeToString(challenge), 1)
}

// TestPasskeyAnswerIsOfItsPage: an answer to a challenge that the server did not draw is refused, one
// that was refused does not use up the challenge, and one that was accepted is refused as long as
// its page could be answered.
func TestPasskeyAnswerIsOfItsPage(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	_, k := h.withPasskey()
	h.changeUser(func(u *storage.User) { u.Passkeys[0].SignCount = 0 })
	k.Counter = ^uint32(0) // an authenticator that does not count
	b := h.atSignIn()
	action, options, values := b.page.prompt(t)
	answer := func(k *key, options string) reply {
		values.Set("credential", k.sign(t, options))
		k.Counter = ^uint32(0)
		return b.post(action, values)
	}
	wantRefusal(t, "another random part", answer(k, withOtherNonce(t, options)), http.StatusForbidden, "cannot be used")
	h.wantLogged(`reason="the challenge is not of this page"`)
	elsewhere := *k
	elsewhere.at.Origin = "https://evil.example.org"
	wantRefusal(t, "a page elsewhere", answer(&elsewhere, options), http.StatusForbidden, "cannot be used")
	if strings.Contains(h.log.String(), "answered before") {
		t.Error("a refused answer uses up the challenge")
	}
	mustSignIn(t, "the answer", answer(k, options))
	h.wantLogged(`msg="signed in" user=reader sub=` + h.subject() + " method=passkey")
	if s := h.sessions(); s[len(s)-1].Method != "passkey" && s[0].Method != "passkey" {
		t.Errorf("no session with a passkey: %+v", s)
	}
	h.clock.advance(10*time.Minute - time.Second)
	wantRefusal(t, "the answer again", b.post(action, values), http.StatusForbidden, "cannot be used")
	h.wantLogged(`reason="the challenge was answered before"`)
	h.changeUser(func(u *storage.User) { u.Disabled = true })
	wantRefusal(t, "of a disabled person", h.atSignIn().answer(k, nil), http.StatusForbidden, "cannot be used")
	h.wantLogged(`reason="the passkey is unknown, or its person is disabled"`)
}

// TestPasskeyPersonMeanwhile: nobody is signed in whose record changed while the passkey was checked.
func TestPasskeyPersonMeanwhile(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]func(h *harness){
		"disabled":       func(h *harness) { h.changeUser(func(u *storage.User) { u.Disabled = true }) },
		"another person": func(h *harness) { h.changeUser(func(u *storage.User) { u.Subject = "another" }) },
		"signed out":     func(h *harness) { h.changeUser(func(u *storage.User) { u.SessionEpoch++ }) },
		"removed":        func(h *harness) { h.must(admin.RemoveUser(t.Context(), h.store, personName)) },
		"nothing much":   func(h *harness) { h.changeUser(func(u *storage.User) { u.FullName = "Reader" }) },
	} {
		h := newHarness(t, setup{})
		_, k := h.withPasskey()
		b := h.atSignIn()
		done := h.meanwhile("user", func() { change(h) })
		r := b.answer(k, nil)
		done()
		if what == "nothing much" {
			mustSignIn(t, what, r)
		} else if want := map[bool]int{true: http.StatusBadRequest, false: http.StatusForbidden}[what == "removed"]; r.status != want || b.isIn() {
			t.Errorf("%s: %s", what, r)
		}
	}
}

// TestMakingPasskeys: what a person makes, names and removes is in the log and on the list; a key is
// made once, from the page of this browser and session, and no more than twenty.
func TestMakingPasskeys(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	b, k := h.signedInAt("/account/passkeys"), newPasskey(h.person())
	_, options, _ := h.signedInAt("/account/passkeys").page.prompt(t)
	wantRefusal(t, "the answer of another browser", b.answer(k, func(v url.Values) { v.Set("credential", k.make(t, options)) }), http.StatusBadRequest, "Nothing was changed")
	h.wantLogged(`msg="passkey refused" user=reader reason="the challenge is not of this page"`)
	b.open(h.issuer + "/account/passkeys")
	k.Options.BackupEligible, k.Options.BackupState = true, true
	page := b.page
	var sent url.Values
	mustSignIn(t, "making", b.answer(k, func(v url.Values) { sent = v }))
	h.wantLogged(`msg="passkey added" user=reader sub=` + h.subject())
	action, _, _ := page.prompt(t)
	wantRefusal(t, "the answer again", b.post(action, sent), http.StatusBadRequest, "Nothing was changed")
	h.wantLogged(`reason="the challenge was answered before"`)
	wantOn(t, "the page", b.open(h.issuer+"/account/passkeys"), "Passkey 1", "Made on", "4 March 2026", "It is on all your devices")
	wantRefusal(t, "no name", b.submit("do", "rename", "name", ""), http.StatusBadRequest, "at most 80")
	mustSignIn(t, "naming", b.submit("do", "rename", "name", "Passkey 2"))
	b.follow()
	mustSignIn(t, "another one", b.answer(newPasskey(h.person()), nil))
	if got := names(h.person()); !slices.Equal(got, []string{"Passkey 2", "Passkey 3"}) {
		t.Errorf("names %q", got)
	}
	used := h.person().Passkeys[0]
	b.follow()
	h.clock.advance(time.Second)
	mustSignIn(t, "removing", b.submit("do", "remove", "id", base64.RawURLEncoding.EncodeToString(used.ID)))
	h.wantLogged(`msg="passkey removed" user=reader sub=` + h.subject())
	if _, err := h.store.Alias(t.Context(), storage.PasskeyAlias(used.ID)); err == nil {
		t.Error("a passkey that was removed leads somewhere")
	}
	if got := h.happened(personName); len(got) != 3 || got[0] != "passkey-removed Passkey 2" || !slices.Contains(got, "passkey-added Passkey 1") || !slices.Contains(got, "passkey-added Passkey 3") {
		t.Errorf("what happened: %q", got)
	}

	b.open(h.issuer + "/account/passkeys")
	h.changeUser(func(u *storage.User) {
		for len(u.Passkeys) < 20 {
			u.Passkeys = append(u.Passkeys, storage.Passkey{ID: []byte{byte(len(u.Passkeys))}, Name: "x"})
		}
	})
	mustShow(t, b.answer(newPasskey(h.person()), nil), http.StatusBadRequest, "invalid_request")
	wantOn(t, "twenty", b.open(h.issuer+"/account/passkeys"), "!data-passkey")
	if n := len(h.person().Passkeys); n != 20 {
		t.Errorf("%d passkeys", n)
	}
}

// TestMakingPasskeysTogether: of two people who register one key at the same moment one has it, and
// the record is that of a person who is still signed in.
func TestMakingPasskeysTogether(t *testing.T) {
	t.Parallel()
	for what, tt := range map[string]struct {
		kind   string
		change func(h *harness, k *key)
		says   string
	}{
		"claimed before": {"alias", func(h *harness, k *key) {
			h.must(h.store.PutAlias(t.Context(), storage.PasskeyAlias(k.ID), storage.Alias{}.Leading("writer", "somebody")))
		}, "the passkey was registered at the same moment"},
		"claimed after": {"user", func(h *harness, k *key) {
			alias, err := h.store.Alias(t.Context(), storage.PasskeyAlias(k.ID))
			h.must(err)
			writer := h.addPerson("writer")
			writer, err = h.store.User(t.Context(), writer.Name)
			h.must(err)
			writer.Passkeys = []storage.Passkey{{ID: k.ID}}
			h.must(h.store.UpdateUser(t.Context(), writer))
			h.must(h.store.PutAlias(t.Context(), storage.PasskeyAlias(k.ID), alias.Leading(writer.Name, writer.Subject)))
		}, "the passkey was registered for another person at the same moment"},
		"gone after": {"user", func(h *harness, k *key) { h.must(h.endAlias(storage.PasskeyAlias(k.ID))) },
			"the passkey was registered for another person at the same moment"},
		"signed out": {"user", func(h *harness, _ *key) { h.changeUser(func(u *storage.User) { u.SessionEpoch++ }) }, ""},
	} {
		h := newHarness(t, setup{})
		b, k := h.signedInAt("/account/passkeys"), newPasskey(h.person())
		done := h.meanwhile(tt.kind, func() { tt.change(h, k) })
		r := b.answer(k, nil)
		done()
		if r.status != http.StatusBadRequest {
			t.Errorf("%s: %s", what, r)
		}
		h.wantLogged(tt.says)
		if tt.says == "" && len(h.person().Passkeys) != 0 {
			t.Errorf("%s: the passkey is there", what)
		}
	}
}

// TestNoPasskeysAtAnAddress: where browsers have no passkeys for the issuer, their forms are refused.
func TestNoPasskeysAtAnAddress(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{issuer: loopbackIssuer})
	h.changeUser(func(u *storage.User) { u.Passkeys = []storage.Passkey{{ID: []byte("1"), Name: "Of another address"}} })
	b := h.signedInAt("/account/passkeys")
	wantOn(t, "the page", b.page, "!data-passkey")
	mustShow(t, b.post(h.issuer+"/account/passkeys", form("csrf", b.page.csrf(), "do", "add", "credential", "{}")), http.StatusBadRequest, "invalid_request")
	at := h.atSignIn()
	_, values := at.page.inputs(t)
	mustShow(t, at.post(h.issuer+"/login/passkey", replaced(values, "credential", "{}")), http.StatusBadRequest, "invalid_request")
}
