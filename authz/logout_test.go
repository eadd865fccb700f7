package authz_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"gatehouse.example/authz/admin"
)

var accountButton = regexp.MustCompile(`<button[^>]* formaction="([^"]*)"[^>]* name="([^"]*)" value="([^"]*)">`)

// press presses a sign-out button of the last page, as a browser does: the button sends the
// form to another URL.
func (b *browser) press(name string, changes ...string) reply {
	b.h.t.Helper()
	_, values := b.page.inputs(b.h.t)
	for _, found := range accountButton.FindAllStringSubmatch(b.page.body, -1) {
		if found[2] != name {
			continue
		}
		values.Set(name, found[3])
		target, err := b.page.url.Parse(found[1])
		if err != nil {
			b.h.t.Fatal(err)
		}
		r := b.h.newRequest(http.MethodPost, target.String(), replaced(values, changes...))
		r.Header.Set("Origin", origin(b.h.issuer))
		return b.do(r)
	}
	b.h.t.Fatalf("no button %s on %s", name, b.page)
	return reply{}
}

// signedIn reports whether a person is signed in with a browser.
func (b *browser) signedIn() bool {
	b.h.t.Helper()
	other := browser{h: b.h, jar: b.jar}
	answer := other.open(b.h.issuer + "/authorize?" + replaced(asks(testClients()["native"]), "prompt", "none").Encode())
	return answer.location(b.h.t).Query().Get("error") == "consent_required"
}

// atConsent opens a consent page, signing in if necessary.
func (b *browser) atConsent(name string) *browser {
	b.h.t.Helper()
	b.open(b.h.issuer + "/authorize?" + asks(testClients()["native"]).Encode())
	if b.follow(); strings.Contains(b.last.body, `name="password"`) {
		b.submit("username", name, "password", personPassword)
		b.follow()
	}
	if !strings.Contains(b.last.body, `name="decision"`) {
		b.h.t.Fatalf("no consent: %s", b.last)
	}
	return b
}

// TestSignOut: the button ends the session in the store and in the browser, also on an old
// page. Grants remain.
func TestSignOut(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{issuer: secureIssuer + "/tenant"})
	b, c := h.newBrowser(), testClients()["native"]
	held := b.tokens(c, asks(c))
	home, _ := url.Parse(h.issuer)
	var kept []*http.Cookie
	kept = append(kept, b.jar.Cookies(home)...)
	b.atConsent(personName)
	h.clock.advance(11 * time.Minute) // longer than the transaction lives
	if !strings.Contains(b.page.body, "You are signed in as <bdi class=\"name\">"+personName) || !b.signedIn() {
		t.Fatalf("not signed in: %s", b.page)
	}
	answer := b.press("sign-out")
	cookie := cookiesOf(t, answer)["__Host-"+cookieName(h.issuer, "authz_session")]
	if answer.status != http.StatusOK || !strings.Contains(answer.body, "You are signed out") || cookie == nil || cookie.MaxAge >= 0 || cookie.Value != "" || !cookie.Secure || cookie.Path != "/" {
		t.Errorf("answer %s, cookie %v", answer, cookie)
	}
	b.jar.SetCookies(home, kept) // with a copy of the cookie
	if b.signedIn() {
		t.Error("the session is still one")
	}
	if refreshed := h.toToken(c, refreshing(c, held.refresh)); refreshed.status != http.StatusOK {
		t.Errorf("the grant ended too: %s", refreshed)
	}
	if again := b.press("sign-out"); again.status != http.StatusOK {
		t.Errorf("a second time: %s", again)
	}
}

// TestNotYou: another person continues with the same authorization request.
func TestNotYou(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{}), testClients()["native"]
	writer := h.addPerson("writer")
	b := h.newBrowser().atConsent(personName)
	transaction := b.page.url.Query().Get("transaction")
	if answer := b.press("not-you"); answer.location(t).String() != h.issuer+"/login?transaction="+transaction {
		t.Fatalf("answer %s", answer)
	}
	if b.follow(); !strings.Contains(b.last.body, `name="password"`) || strings.Contains(b.last.body, personName) || b.signedIn() {
		t.Fatalf("no sign-in page, or one with a name: %s", b.last)
	}
	b.submit("username", "writer", "password", personPassword)
	b.follow()
	answer := b.submit("decision", "allow").location(t).Query()
	token := h.toToken(c, redemption(c, answer.Get("code"))).member(t, "access_token")
	if got := claims(t, token)["sub"]; got != writer.Subject || answer.Get("state") != asks(c).Get("state") {
		t.Errorf("the token is of %v with state %q, want %s", got, answer.Get("state"), writer.Subject)
	}
	// A person who has to sign in again can press the button there too.
	b.open(h.issuer + "/authorize?" + replaced(asks(c), "prompt", "login").Encode())
	b.follow()
	if answer := b.press("not-you"); answer.status != http.StatusSeeOther || b.signedIn() {
		t.Errorf("from the sign-in page: %s", answer)
	}
	if b.follow(); strings.Contains(b.last.body, "signed in as") {
		t.Errorf("no person is signed in: %s", b.last)
	}
}

// TestNobodySignsOthersOut: without the token of this browser and session nothing happens,
// neither from another site nor by a link.
func TestNobodySignsOthersOut(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	h.addPerson("writer")
	b, other := h.newBrowser().atConsent(personName), h.newBrowser().atConsent("writer")
	of := func(x *browser) string { return accountButton.FindStringSubmatch(x.page.body)[3] }
	_, form := b.page.inputs(t)
	for name, token := range map[string]string{"none": "", "another's": of(other), "of the consent form": form.Get("csrf"), "cut": of(b)[1:]} {
		for _, button := range []string{"sign-out", "not-you"} {
			if answer := b.press(button, button, token); answer.status != http.StatusForbidden || !b.signedIn() {
				t.Errorf("%s, token %s: %s", button, name, answer)
			}
		}
	}
	r := h.newRequest(http.MethodPost, h.issuer+"/logout", url.Values{"sign-out": {of(b)}})
	r.Header.Set("Origin", "https://evil.example")
	if answer := b.do(r); answer.status != http.StatusForbidden || !b.signedIn() {
		t.Errorf("from another site: %s", answer)
	}
	if answer := b.open(h.issuer + "/logout?sign-out=" + of(b)); answer.status != http.StatusMethodNotAllowed || answer.header.Get("Allow") != "POST" || !b.signedIn() {
		t.Errorf("by a link: %s", answer)
	}
	h.faults.SetDown(true)
	if answer := b.press("sign-out"); answer.status != http.StatusServiceUnavailable || len(cookiesOf(t, answer)) != 0 {
		t.Errorf("without a store: %s", answer)
	}
	h.faults.SetDown(false)
	if !b.signedIn() {
		t.Error("half signed out")
	}
	if answer := h.newBrowser().do(h.newRequest(http.MethodPost, h.issuer+"/logout", nil)); answer.status != http.StatusOK {
		t.Errorf("signing out without a session: %s", answer)
	}
}

// TestIssuersOnOneHost: cookies of one host are shared by all its ports, and these have the
// path /, so the names of the cookies differ by issuer.
func TestIssuersOnOneHost(t *testing.T) {
	t.Parallel()
	for _, issuers := range [][2]string{
		{secureIssuer + "/a", secureIssuer + "/b"}, {secureIssuer, secureIssuer + "/b"}, {"http://127.0.0.1:8080", "http://127.0.0.1:8090"}, {"https://auth.example.com:8443", secureIssuer},
	} {
		first, second := newHarness(t, setup{issuer: issuers[0]}), newHarness(t, setup{issuer: issuers[1]})
		second.addPerson("writer")
		a := first.newBrowser()
		b := &browser{h: second, jar: a.jar}
		a.atConsent(personName)
		if b.signedIn() {
			t.Errorf("%v: the session of one is taken for one by the other", issuers)
		}
		b.atConsent("writer")
		if !a.signedIn() || !b.signedIn() {
			t.Errorf("%v: one overwrote the other", issuers)
		}
		if answer := a.submit("decision", "deny"); answer.status != http.StatusSeeOther || answer.location(t).Query().Get("error") != "access_denied" {
			t.Errorf("%v: the page of the first: %s", issuers, answer)
		}
		if b.press("sign-out"); b.signedIn() || !a.signedIn() {
			t.Errorf("%v: signing out at one: at the other %v", issuers, a.signedIn())
		}
	}
}

// TestPasswordEndsSessions: a new password ends the sessions that began with the old one,
// including one that begins during the change, and a decision in progress.
func TestPasswordEndsSessions(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{}), testClients()["native"]
	change := func() {
		if err := admin.SetPassword(t.Context(), h.store, "Reader ", personPassword); err != nil {
			t.Error(err)
		}
	}
	b := h.newBrowser()
	held := b.tokens(c, asks(c))
	change()
	if b.signedIn() {
		t.Error("the session outlived its password, though the new one is the same")
	}
	if answer := h.toToken(c, refreshing(c, held.refresh)); answer.status != http.StatusOK {
		t.Errorf("the grant ended: %s", answer)
	}
	late := h.newBrowser()
	late.open(h.issuer + "/authorize?" + asks(c).Encode())
	late.follow()
	h.meter.once(&h.meter.before, "put", "session", change)
	late.submit("username", personName, "password", personPassword)
	if late.signedIn() {
		t.Error("a session began with the old password after it was changed")
	}
	deciding := h.newBrowser().atConsent(personName)
	h.meter.once(&h.meter.after, "put", "grant", change)
	if answer := deciding.submit("decision", "allow"); answer.status != http.StatusBadRequest || answer.header.Get("Location") != "" {
		t.Errorf("a decision while the password was changed: %s", answer)
	}
	if same, err := admin.HasPassword(t.Context(), h.store, "READER", personPassword); !same || err != nil {
		t.Errorf("the password: %v, %v", same, err)
	}
	if same, err := admin.HasPassword(t.Context(), h.store, "reader", "another"); same || err != nil {
		t.Errorf("another password: %v, %v", same, err)
	}
}

// TestNoOpenerPolicy: with a Cross-Origin-Opener-Policy a client would lose the pop-up in
// which it opened the pages. The other policies are set.
func TestNoOpenerPolicy(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	b := h.newBrowser()
	b.open(h.issuer + "/authorize?" + asks(testClients()["native"]).Encode())
	answers := []reply{b.last, b.follow(), b.submit("username", personName, "password", "wrong password"), b.submit("username", personName, "password", personPassword), b.follow()}
	answers = append(answers, b.press("sign-out"), b.open(h.issuer+"/consent?transaction=none"), b.open(h.issuer+"/authorize"))
	for _, answer := range answers {
		for name := range answer.header {
			if strings.HasPrefix(name, "Cross-Origin-Opener-Policy") || strings.HasPrefix(name, "Cross-Origin-Embedder-Policy") {
				t.Errorf("%s has %s: %s", answer.url, name, answer.header.Get(name))
			}
		}
		if answer.header.Get("Cross-Origin-Resource-Policy") == "" || answer.header.Get("X-Frame-Options") == "" {
			t.Errorf("%s has no policy: %v", answer.url, answer.header)
		}
	}
}
