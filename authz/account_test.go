package authz_test

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"gatehouse.example/authz"
	"gatehouse.example/storage"
)

// account opens a page of the person's account, signing in as name if necessary.
func (b *browser) account(name, path string) reply {
	b.h.t.Helper()
	answer := b.open(b.h.issuer + path)
	if answer.status == http.StatusSeeOther {
		b.follow()
		b.submit("username", name, "password", personPassword)
		answer = b.follow()
	}
	if answer.status != http.StatusOK || answer.url.Path != strings.TrimSuffix(mustURL(b.h.issuer).Path, "/")+path {
		b.h.t.Fatalf("no page at %s: %s", path, answer)
	}
	return answer
}

func mustURL(raw string) *url.URL {
	u, err := url.Parse(raw)
	if err != nil {
		panic(err)
	}
	return u
}

var namedButton = regexp.MustCompile(`<button[^>]* name="([^"]*)" value="([^"]*)"`)

// buttons returns the values of the buttons with a name on a page, in order.
func (r reply) buttons(name string) (values []string) {
	for _, found := range namedButton.FindAllStringSubmatch(r.body, -1) {
		if found[1] == name {
			values = append(values, found[2])
		}
	}
	return values
}

var csrfInput = regexp.MustCompile(`name="csrf" value="([^"]*)"`)

func (r reply) csrf() string {
	if found := csrfInput.FindStringSubmatch(r.body); found != nil {
		return found[1]
	}
	return ""
}

// push sends the form of a page of the account with one of its buttons.
func (b *browser) push(page reply, path, name, value string) reply {
	b.h.t.Helper()
	r := b.h.newRequest(http.MethodPost, b.h.issuer+path, form("csrf", page.csrf(), name, value))
	r.Header.Set("Origin", origin(b.h.issuer))
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	return b.do(r)
}

// everyAccountPage are the pages of a person's account.
var everyAccountPage = []string{"/account", "/account/applications", "/account/applications/end-all", "/account/remembered", "/account/sessions", "/account/activity"}

// TestAccountNeedsASession: whoever is not signed in is sent to sign in and comes back, and
// nothing is stored for that, whatever is sent.
func TestAccountNeedsASession(t *testing.T) {
	t.Parallel()
	for _, issuer := range []string{secureIssuer, secureIssuer + "/tenant/one"} {
		h := newHarness(t, setup{issuer: issuer})
		for _, path := range everyAccountPage {
			b := h.newBrowser()
			writes, trips := h.meter.writes.Load(), h.roundTrips.Load()
			answer := b.open(issuer + path)
			if h.meter.writes.Load() != writes || h.roundTrips.Load() != trips {
				t.Errorf("%s: a stranger cost %d round trips", path, h.roundTrips.Load()-trips)
			}
			if answer.status != http.StatusSeeOther || !strings.HasPrefix(answer.header.Get("Location"), issuer+"/login?transaction=") {
				t.Fatalf("%s: %s", path, answer)
			}
			b.follow()
			b.submit("username", personName, "password", personPassword)
			if answer = b.follow(); answer.status != http.StatusOK || answer.url.String() != issuer+path || !strings.Contains(answer.body, "<h1>") {
				t.Errorf("%s: after the sign-in: %s", path, answer)
			}
			if answer.header.Get("Cache-Control") != "no-store" || !strings.Contains(answer.header.Get("Content-Security-Policy"), "default-src 'none'") || strings.Contains(answer.body, "<script") {
				t.Errorf("%s: %v", path, answer.header)
			}
		}
		for _, path := range everyAccountPage[1:5] {
			trips := h.roundTrips.Load()
			answer := h.post(path, "csrf", "x", "end-all", "yes", "end-others", "yes", "end-grant", "x", "forget", "x")
			if answer.status != http.StatusSeeOther || h.roundTrips.Load() != trips {
				t.Errorf("POST %s of a stranger: %s, %d round trips", path, answer, h.roundTrips.Load()-trips)
			}
		}
	}
}

// TestAccountForms: a form is accepted from the page that was made for this session and purpose
// only, and from no other site.
func TestAccountForms(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{}), testClients()["native"]
	b, other := h.newBrowser(), h.newBrowser()
	held := b.tokens(c, asks(c))
	page := b.account(personName, "/account/applications")
	grant := page.buttons("end-application")[0]
	for what, answer := range map[string]reply{
		"of another session": b.push(other.account(personName, "/account/applications"), "/account/applications", "end-application", grant),
		"of another purpose": b.push(b.account(personName, "/account/sessions"), "/account/applications", "end-application", grant),
		"to end all":         b.push(page, "/account/applications/end-all", "end-all", "yes"),
		"without a token":    b.push(reply{}, "/account/applications", "end-application", grant),
	} {
		mustShow(t, answer, http.StatusForbidden, "invalid_request")
		wantOn(t, what, answer, "Open the list again and look.")
		if !h.active(held.access) {
			t.Fatalf("a form %s ended something", what)
		}
	}
	foreign := h.newRequest(http.MethodPost, h.issuer+"/account/applications", form("csrf", page.csrf(), "end-application", grant))
	foreign.Header.Set("Origin", "https://attacker.example.org")
	mustShow(t, b.do(foreign), http.StatusForbidden, "invalid_request")
	inQuery := h.newRequest(http.MethodPost, h.issuer+"/account/applications?end-application="+grant, form("csrf", page.csrf()))
	inQuery.Header.Set("Origin", h.issuer)
	mustShow(t, b.do(inQuery), http.StatusBadRequest, "invalid_request")
	mustShow(t, b.push(page, "/account/applications", "end-nothing", "x"), http.StatusBadRequest, "invalid_request")
	if !h.active(held.access) {
		t.Error("one of the forms ended something")
	}
}

// TestApplications: the page says who may do what and where, since when, from where, and used when;
// and it says what of it does not hold any more.
func TestApplications(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{}), testClients()["native"]
	b := h.newBrowser()
	b.code(asks(c)) // not redeemed
	h.clock.advance(time.Minute / 2)
	held := b.tokens(c, asks(c))
	h.clock.advance(2 * time.Hour)
	h.toToken(c, refreshing(c, held.refresh))
	page := b.account(personName, "/account/applications").body
	for _, want := range []string{
		"The native client", "Unverified: this name was chosen by the application itself.", "At <bdi>Notes</bdi>", notes, "Read your notes", "notes:write",
		"127.0.0.1:49152", "From <bdi>127.0.0.1</bdi>", "4 March 2026", "<bdi>05:06</bdi>", "<bdi>07:06</bdi>", "for up to 10 minutes",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("%q is not on the page:\n%s", want, page)
		}
	}
	if n := strings.Count(page, "<section"); n != 1 {
		t.Errorf("one client is there %d times", n)
	}
	read := authz.Scope{Name: "notes:read", Description: "Read your notes"}
	others := authz.Scope{Name: "notes:write", Description: "Add and change notes", Allow: authz.Allow{People: []string{"writer"}}}
	for what, scopes := range map[string][]authz.Scope{"is gone": {read}, "is for others": {read, others}} {
		h.cfg.Resources = []authz.Resource{bothResources()[1], {URI: notes, Name: "Notes", Scopes: scopes}}
		h.restart()
		page = b.account(personName, "/account/applications").body
		if !strings.Contains(page, `not possible at the moment: <bdi class="uri">notes:write</bdi>`) || strings.Contains(page, "Add and change notes") {
			t.Errorf("a scope that %s:\n%s", what, page)
		}
	}
	h.cfg.Resources = h.cfg.Resources[:1]
	h.restart()
	if page = b.account(personName, "/account/applications").body; !strings.Contains(page, "Nothing at the moment") {
		t.Errorf("a resource that is gone:\n%s", page)
	}
}

// TestEndApplication: refresh and introspection refuse at once, whichever button is pressed, and
// pressing it again changes nothing.
func TestEndApplication(t *testing.T) {
	t.Parallel()
	for _, button := range []string{"end-grant", "end-application", "end-all"} {
		h, c, other := newHarness(t, setup{}), testClients()["native"], testClients()["web"]
		b := h.newBrowser()
		one := b.tokens(c, asks(c))
		h.clock.advance(time.Second)
		two := b.tokens(c, asks(c))
		three := b.tokens(other, asks(other))
		h.remember(b, c.ID)
		path, want := "/account/applications", []bool{false, false, true}
		page := b.account(personName, path)
		value := c.ID
		switch button {
		case "end-grant":
			value, want = page.buttons(button)[0], []bool{true, false, true} // the newer one
		case "end-all":
			path, value, want = path+"/end-all", "yes", []bool{false, false, false}
			page = b.account(personName, path)
		}
		for range 2 {
			if answer := b.push(page, path, button, value); answer.status != http.StatusOK || !strings.Contains(answer.body, "ended</h1>") || !strings.Contains(answer.body, "10 minutes") {
				t.Errorf("%s: %s", button, answer)
			}
			if got := []bool{h.active(one.access), h.active(two.access), h.active(three.access)}; !slices.Equal(got, want) {
				t.Errorf("%s: active %v, want %v", button, got, want)
			}
		}
		for i, held := range []tokens{one, two, three} {
			client := c
			if i == 2 {
				client = other
			}
			if answer := h.toToken(client, refreshing(client, held.refresh)); (answer.status == http.StatusOK) != want[i] {
				t.Errorf("%s: a refresh of %d: %s", button, i, answer)
			}
		}
		if _, err := h.store.Consent(t.Context(), h.subjectOf(personName), c.ID); (err == nil) != (button == "end-grant") {
			t.Errorf("%s: the remembered consent is read with %v", button, err)
		}
		h.wantEvent(b, map[string]string{"end-grant": "You ended", "end-application": "You ended", "end-all": "You ended all applications."}[button])
	}
}

// remember stores a consent of the person for a client.
func (h *harness) remember(_ *browser, client string) {
	h.t.Helper()
	err := h.store.PutConsent(h.t.Context(), storage.Consent{Subject: h.subjectOf(personName), ClientID: client, Given: []storage.Remembered{
		{RedirectHost: "127.0.0.1:49152", At: h.clock.Now(), Until: h.clock.Now().Add(24 * time.Hour)},
	}})
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *harness) subjectOf(name string) string {
	h.t.Helper()
	user, err := h.store.User(h.t.Context(), name)
	if err != nil {
		h.t.Fatal(err)
	}
	return user.Subject
}

// wantEvent looks for an event on the page.
func (h *harness) wantEvent(b *browser, text string) {
	h.t.Helper()
	if page := b.account(personName, "/account/activity"); !strings.Contains(page.body, text) {
		h.t.Errorf("what happened lately does not say %q:\n%s", text, page.body)
	}
}

// TestNotYours: an id of another person and one that does not exist get the same answer after the
// same round trips, and nothing ends.
func TestNotYours(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{}), testClients()["native"]
	writer := h.addPerson("writer")
	h.addGrant(writer, "other-client", notes)
	mine, theirs := h.newBrowser(), h.newBrowser()
	held := mine.tokens(c, asks(c))
	mine.tokens(c, asks(c))
	grants := mine.account(personName, "/account/applications").buttons("end-grant")
	session := mine.account(personName, "/account/sessions").buttons("end")[0]
	for _, tt := range []struct{ path, button, foreign, unknown string }{
		{"/account/applications", "end-grant", grants[0], "AAAAAAAAAAAAAAAAAAAAAA"},
		{"/account/sessions", "end", session, strings.Repeat("0", 64)},
	} {
		page := theirs.account("writer", tt.path)
		var answers [2]reply
		var trips [2]int64
		for i, id := range []string{tt.foreign, tt.unknown} {
			before := h.roundTrips.Load()
			answers[i] = theirs.push(page, tt.path, tt.button, id)
			trips[i] = h.roundTrips.Load() - before
			mustShow(t, answers[i], http.StatusNotFound, "not_found")
		}
		if answers[0].body != answers[1].body || trips[0] != trips[1] {
			t.Errorf("%s: another person's and an unknown one differ: %d and %d round trips\n%s\n%s", tt.path, trips[0], trips[1], answers[0].body, answers[1].body)
		}
	}
	applications := theirs.account("writer", "/account/applications")
	if got := applications.buttons("end-application"); len(got) != 1 || got[0] != "other-client" || len(applications.buttons("end-grant")) > 0 {
		t.Errorf("one person sees what acts for another:\n%s", applications.body)
	}
	all := theirs.account("writer", "/account/applications/end-all")
	theirs.push(all, "/account/applications/end-all", "end-all", "yes")
	if !h.active(held.access) || !mine.signedIn() {
		t.Error("one person ended what is another's")
	}
}
