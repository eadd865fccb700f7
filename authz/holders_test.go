package authz_test

import (
	"net/url"
	"strings"
	"testing"

	"gatehouse.example/authz"
	"gatehouse.example/storage"
)

// TestHoldersAreHints: what a process remembers about whose a session is decides nothing. With
// somebody else in it, pages are those of the person of the session, what the other person decided
// counts for nobody else, and the next request remembers the right one.
func TestHoldersAreHints(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{}), testClients()["web"]
	h.addPerson("writer")
	writer := h.newBrowser()
	writer.signInForAccount("writer")
	writer.open(h.issuer + "/authorize?" + asks(c).Encode())
	writer.follow()
	_, values := writer.page.inputs(t)
	writer.submit("decision", "allow", "remember", "always", "scope", values["scope"][0], "scope", values["scope"][1])
	if got := writer.unasked(asks(c)); got != "code" {
		t.Fatalf("the decision is not remembered: %s", got)
	}
	other, err := h.store.User(t.Context(), "writer")
	h.must(err)

	b := h.newBrowser()
	b.signInForAccount(personName)
	home, err := url.Parse(h.issuer)
	h.must(err)
	l := h.watched()
	mislead := func() {
		for _, cookie := range b.jar.Cookies(home) {
			if cookie.Name == hostSession {
				h.handler.Load().RememberHolder(storage.SessionID(cookie.Value), other)
			}
		}
	}
	const misled = "read client session user consent, read user consent"
	mislead()
	if got := strings.Join(l.during(h, func() {
		if got := b.unasked(asks(c)); got != "consent_required" {
			t.Errorf("the decision of somebody else: %s", got)
		}
	}), ", "); got != misled {
		t.Errorf("a wrong hint: %s", got)
	}
	mislead()
	b.open(h.issuer + "/authorize?" + asks(c).Encode())
	mislead()
	if page := b.follow(); !strings.Contains(page.body, personName) || strings.Contains(page.body, "writer") {
		t.Errorf("the page of somebody else: %s", page)
	}
	if got := strings.Join(l.during(h, func() { b.open(b.last.url.String()) }), ", "); got != tripsPage {
		t.Errorf("after a wrong hint: %s", got)
	}
}

// TestHoldersAreBounded: of very many sessions the last ones are remembered.
func TestHoldersAreBounded(t *testing.T) {
	t.Parallel()
	if most, last := authz.HoldersAfter(20_000); most > 2*4096 || !last {
		t.Errorf("%d sessions are remembered; the last one: %t", most, last)
	}
}
