package authz_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"gatehouse.example/storage"
)

// TestHintOfAName: the sign-in page comes again for a login_hint that is none of the names of the person
// who is signed in, in whatever case, and has it as the name. An address says nothing about a person of
// whom none is known, and what cannot be a name says nothing at all.
func TestHintOfAName(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 128)
	for what, tt := range map[string]struct {
		hint   string
		noMail bool
		asked  bool
	}{
		"the name":                     {hint: personName},
		"in capitals":                  {hint: strings.ToUpper(personName)},
		"the address":                  {hint: "Reader@Example.com"},
		"the handle":                   {hint: "r.reader"},
		"with the provider":            {hint: "former/r.reader"},
		"with another provider":        {hint: "other/r.reader", asked: true},
		"another name":                 {hint: "writer", asked: true},
		"another name, no address":     {hint: "writer", noMail: true, asked: true},
		"another address":              {hint: "other@example.com", asked: true},
		"an address, and none known":   {hint: "other@example.com", noMail: true},
		"the longest":                  {hint: long, asked: true},
		"too long":                     {hint: long + "x"},
		"two words":                    {hint: "two words"},
		"a character that is not seen": {hint: "wri\u200bter"},
		"no text":                      {hint: "wri\xffter"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, setup{})
			h.changeUser(func(u *storage.User) {
				u.Identities = []storage.Identity{{Provider: "former", Issuer: "https://former.example.com", Subject: "1", Handle: "r.reader"}}
				if !tt.noMail {
					u.Email = "reader@example.com"
				}
			})
			b := h.newBrowser()
			b.signInForAccount(personName)
			h.clock.advance(time.Second)
			b.open(h.issuer + "/authorize?" + replaced(asks(testClients()["native"]), "login_hint", tt.hint).Encode())
			if asked := strings.Contains(b.last.header.Get("Location"), "/login?"); asked != tt.asked {
				t.Errorf("asked: %t: %s", asked, b.last)
			} else if asked {
				wantOn(t, what, b.follow(), `value="`+tt.hint+`"`)
			}
		})
	}
}

// TestDecidingWhileTheStoreFails: a decision that changes what is remembered counts only when that is
// changed: nothing is granted before, and the page can be answered again. One to decline counts once.
func TestDecidingWhileTheStoreFails(t *testing.T) {
	t.Parallel()
	c := testClients()["web"]
	request := replaced(asks(c), "scope", "notes:read notes:write", "prompt", "consent")
	for what, decide := range map[string]func(b *browser) reply{
		"declining": func(b *browser) reply { return b.submit("decision", "deny") },
		"unticking": func(b *browser) reply { return b.submit("decision", "allow", "scope", "notes:read") },
	} {
		h := newHarness(t, setup{})
		b := h.newBrowser()
		b.decide(replaced(asks(c), "scope", "notes:read notes:write"), "always")
		b.open(h.issuer + "/authorize?" + request.Encode())
		b.follow()
		page, puts := b.page, 0
		cookies := b.keeps()
		down := func(op, key string) {
			if strings.HasPrefix(key, "gatehouse:consent:") && !strings.HasPrefix(op, "get") {
				h.faults.SetDown(true)
			}
			if op == "put" && strings.HasPrefix(key, "gatehouse:grant:") {
				puts++
			}
		}
		h.meter.before.Store(&down)
		r := decide(b)
		h.meter.before.Store(nil)
		h.faults.SetDown(false)
		mustShow(t, r, http.StatusServiceUnavailable, "temporarily_unavailable")
		if puts != 0 {
			t.Errorf("%s: a grant was stored", what)
		}
		b.page = page
		if r = decide(b); r.status != http.StatusSeeOther || !strings.HasPrefix(r.header.Get("Location"), c.redirect) {
			t.Errorf("%s again: %s", what, r)
		}
		b.putBack(cookies)
		b.page = page
		mustShow(t, decide(b), http.StatusBadRequest, "invalid_request")
	}
}

// TestConsentOfWhoStays: the page says that access lasts until it is revoked only for a client that gets
// refresh tokens.
func TestConsentOfWhoStays(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	b := h.newBrowser()
	b.signInForAccount(personName)
	for name, stays := range map[string]string{"native": "", "brief": "!"} {
		b.open(h.issuer + "/authorize?" + asks(testClients()[name]).Encode())
		wantOn(t, name, b.follow(), stays+"goes unused for a long time")
	}
}
