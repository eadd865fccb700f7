package authz_test

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"gatehouse.example/dcr"
	"gatehouse.example/storage"
)

// The tests of this file are attacks in which somebody gets what another person decided or a
// provider said about another person: rows D-4 to D-6 of docs/conformance/pages.md. A subtest begins
// with the id of its attack.

// attacks runs each attack as a subtest, in the order of their names.
func attacks(t *testing.T, list map[string]func(t *testing.T)) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(list)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			list[name](t)
		})
	}
}

// lookAlike stores a client that says the same about itself as another one, under its own id.
func (h *harness) lookAlike(c testClient) testClient {
	h.t.Helper()
	c.ID = "look-alike-of-" + c.ID
	h.addClient(c.Client)
	return c
}

// remembered returns a provider with a browser whose person signed in there and had their decision
// about a request remembered for good.
func remembered(t *testing.T, request url.Values, untick ...string) (*atProvider, *browser) {
	t.Helper()
	p := newAtProvider(t, nil)
	b := p.newBrowser()
	b.arrive(p.company, "company", request)
	b.decide(request, "always", untick...)
	return p, b
}

// asksAgain checks that the consent page is shown to somebody who signs in with the provider in a
// browser without a session, after the page before the provider; both show the words.
func (p *atProvider) asksAgain(t *testing.T, request url.Values, words ...string) {
	t.Helper()
	b := p.newBrowser()
	before := b.choose("company", request)
	for name, page := range map[string]reply{"before the provider": before, "the consent page": b.arrive(p.company, "company", request)} {
		if page.status != http.StatusOK || !strings.Contains(page.body, `name="decision" value="allow"`) {
			t.Errorf("%s: nothing is asked: %s", name, page)
		}
		for _, word := range words {
			if !strings.Contains(page.body, word) {
				t.Errorf("%s does not show %q", name, word)
			}
		}
	}
}

// untouched returns a function that fails if the provider was asked for anything since.
func (p *atProvider) untouched(t *testing.T) (check func()) {
	count := func() int { return p.company.Requests("/authorize") + p.company.Requests("/token") }
	before := count()
	return func() {
		t.Helper()
		if n := count() - before; n != 0 {
			t.Errorf("the provider was asked %d times", n)
		}
	}
}

// TestConsentIsOfOnePersonAndClient: what a person decided about one client counts for no other
// client, no other person, no other host and no more access, however silently the provider signs the
// person in.
func TestConsentIsOfOnePersonAndClient(t *testing.T) {
	t.Parallel()
	web := testClients()["web"]
	both, read := replaced(asks(web), "scope", "notes:read notes:write"), replaced(asks(web), "scope", "notes:read")
	attacks(t, map[string]func(*testing.T){
		"J12/a look-alike with the same name and redirect": func(t *testing.T) {
			p, b := remembered(t, both)
			like := p.lookAlike(web)
			if got := b.unasked(replaced(maps.Clone(both), "client_id", like.ID)); got != "consent_required" {
				t.Errorf("in the browser of the decision: %s", got)
			}
			p.asksAgain(t, replaced(maps.Clone(both), "client_id", like.ID))
		},
		"J12/the client moves to another host": func(t *testing.T) {
			p, b := remembered(t, both)
			const moved = "https://moved.example.org/callback"
			p.changeClient(web.ID, func(c *storage.Client) { c.Metadata.RedirectURIs = []string{moved} })
			request := replaced(maps.Clone(both), "redirect_uri", moved)
			if got := b.unasked(request); got != "consent_required" {
				t.Errorf("in the browser of the decision: %s", got)
			}
			p.asksAgain(t, request, "moved.example.org")
		},
		"J13/the link of an attacker": func(t *testing.T) {
			p, b := remembered(t, both)
			evil := web
			evil.Metadata.RedirectURIs = []string{"https://evil.example.org/callback"}
			evil.redirect = evil.Metadata.RedirectURIs[0]
			evil = p.lookAlike(evil)
			check := p.untouched(t)
			if got := b.unasked(asks(evil)); got != "consent_required" {
				t.Errorf("somebody who is signed in: %s", got)
			}
			for _, more := range []string{"", "ada@example.com", adaName} {
				victim := p.newBrowser()
				victim.open(p.issuer + "/authorize?" + replaced(asks(evil), "login_hint", more).Encode())
				if page := victim.follow(); page.status != http.StatusOK || !strings.Contains(page.body, "evil.example.org") {
					t.Errorf("login_hint %q: no page with the client's host: %s", more, page)
				}
				// The page cannot be replaced by a link either.
				if r := victim.open(victim.page.url.String() + "&provider=company&decision=allow"); strings.Contains(r.header.Get("Location"), p.company.URL()) {
					t.Errorf("a link leads to the provider: %s", r)
				}
			}
			check()
		},
		"J13/no session, a remembered decision": func(t *testing.T) {
			p, _ := remembered(t, both)
			b, check := p.newBrowser(), p.untouched(t)
			if got := b.unasked(both); got != "login_required" {
				t.Errorf("prompt=none: %s", got)
			}
			if page := b.choose("company", both); !strings.Contains(page.body, `name="decision" value="allow"`) {
				t.Errorf("the page before the provider is left out: %s", page)
			}
			check()
			if r := b.arrive(p.company, "company", both); r.location(t).Query().Get("code") == "" {
				t.Errorf("who it is was decided here, and the rest before: %s", r)
			}
		},
		"J13/another person at the same browser": func(t *testing.T) {
			p, b := remembered(t, both)
			p.company.SignIn(personOf("2", "bob@example.com"))
			p.clock.advance(time.Second)
			b.arrive(p.company, "company", replaced(maps.Clone(both), "prompt", "select_account"))
			if got := b.unasked(both); got != "consent_required" {
				t.Errorf("%s", got)
			}
			p.asksAgain(t, both)
		},
		"J18/what was unticked, without a page": func(t *testing.T) {
			p, b := remembered(t, both, "notes:write")
			if got := b.unasked(both); got != "consent_required" {
				t.Errorf("with what was unticked: %s", got)
			}
			if got := b.unasked(read); got != "code" {
				t.Errorf("without it: %s", got)
			}
			p.asksAgain(t, both)
		},
		"J18/a client that changes during the sign-in": func(t *testing.T) {
			p, _ := remembered(t, both)
			b := p.newBrowser()
			b.choose("company", both)
			back := b.leave(p.company)
			p.changeClient(web.ID, func(c *storage.Client) { c.Metadata.ClientName = "Another" })
			p.clock.advance(6 * time.Second) // what the process remembers of clients is over
			b.open(back.String())
			mustShow(t, b.follow(), http.StatusBadRequest, "invalid_request")
		},
		"J18/steps left out": func(t *testing.T) {
			p := newAtProvider(t, nil)
			b, check := p.newBrowser(), p.untouched(t)
			page := b.choose("company", both)
			_, values := page.inputs(t)
			consent := p.issuer + "/consent?transaction=" + values.Get("transaction")
			if r := b.open(consent); r.status != http.StatusSeeOther || !strings.HasPrefix(r.header.Get("Location"), p.issuer+"/login") {
				t.Errorf("the consent page without a session: %s", r)
			}
			for _, path := range []string{"/consent", "/login/code"} {
				r := p.with(b.jar, postForm(p.harness, path, replaced(maps.Clone(values), "decision", "allow", "provider", "")))
				if strings.Contains(r.header.Get("Location"), "code=") || r.status == http.StatusOK || cookiesOf(t, r)[hostSession] != nil {
					t.Errorf("%s in place of the page before the provider: %s", path, r)
				}
			}
			check()
		},
		"J18/the sign-in to the account page": func(t *testing.T) {
			p := newAtProvider(t, nil)
			b := p.newBrowser()
			b.open(p.issuer + "/account")
			b.follow()
			transaction := b.page.url.Query().Get("transaction")
			r := b.submit("provider", "company")
			back := p.company.Return(t, r.header.Get("Location"))
			mustShow(t, b.open(p.issuer+"/consent?transaction="+transaction), http.StatusBadRequest, "invalid_request")
			if r := b.open(back.String()); r.header.Get("Location") != p.issuer+"/account" {
				t.Errorf("it leads to %s", r)
			}
		},
	})
}

// TestDecisionAndCallbackInOneBrowser: somebody decides on a client in their own browser and sends
// the address of the provider, or their page, to a person who is signed in at the provider. That
// person's browser gets a page and nothing else happens: to neither of them.
func TestDecisionAndCallbackInOneBrowser(t *testing.T) {
	t.Parallel()
	web := testClients()["web"]
	for name, prepare := range map[string]func(p *atProvider) *browser{
		"J19/no session": func(p *atProvider) *browser { return p.newBrowser() },
		"J19/signed in": func(p *atProvider) *browser {
			b := p.newBrowser()
			b.code(asks(web))
			return b
		},
		"J19/signed in, with the same decision under way": func(p *atProvider) *browser {
			b := p.newBrowser()
			b.choose("company", asks(web))
			b.leave(p.company)
			return b
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newAtProvider(t, nil)
			victim, attacker := prepare(p), p.newBrowser()
			held, tokens := p.signedInAs(victim), p.company.Requests("/token")
			attacker.choose("company", asks(web))
			transaction := attacker.page.url.Query().Get("transaction")
			if transaction == "" {
				_, values := attacker.page.inputs(t)
				transaction = values.Get("transaction")
			}
			back := attacker.leave(p.company) // the victim's browser follows the attacker's address

			for _, address := range []string{back.String(), p.issuer + "/login?transaction=" + transaction, p.issuer + "/consent?transaction=" + transaction} {
				r := victim.open(address)
				mustShow(t, r, http.StatusBadRequest, "invalid_request")
				if set := cookiesOf(t, r); set[hostSession] != nil {
					t.Errorf("%s: a session begins or ends: %v", address, set)
				}
			}
			if got := p.signedInAs(victim); got != held {
				t.Errorf("the victim is signed in as %q, and was as %q", got, held)
			}
			if got := p.signedInAs(attacker); got != "" {
				t.Errorf("the attacker is signed in as %q", got)
			}
			if n := p.company.Requests("/token") - tokens; n != 0 {
				t.Errorf("%d codes were sent to the provider", n)
			}
			if _, err := p.store.User(t.Context(), adaName); err == nil {
				t.Error("an account was made")
			}
		})
	}
}

// signedInAs returns the name of the person of a browser, "" for nobody.
func (p *atProvider) signedInAs(b *browser) string {
	p.t.Helper()
	r := (&browser{h: b.h, jar: b.jar}).open(p.issuer + "/account")
	if r.status != http.StatusOK {
		return ""
	}
	for _, name := range []string{personName, "ada@example.com"} {
		if strings.Contains(r.body, name) {
			return name
		}
	}
	return "somebody"
}

// TestLoopbackClientsAreAskedAbout: a client that nobody vouches for and that gets its answer on the
// person's device is decided about on two pages each time, whatever the provider remembers: another
// program can use its client_id (RFC 8252 section 8.6).
func TestLoopbackClientsAreAskedAbout(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"native", "app"} {
		c := testClients()[name]
		t.Run("J14/"+name, func(t *testing.T) {
			t.Parallel()
			p := newAtProvider(t, nil)
			b := p.newBrowser()
			page := b.arrive(p.company, "company", asks(c))
			if strings.Contains(page.body, `name="remember"`) {
				t.Errorf("remembering is offered: %s", page)
			}
			_, values := page.inputs(t)
			forged := b.submit("decision", "allow", "scope", values["scope"][0], "remember", "always")
			if forged.status != http.StatusBadRequest || forged.header.Get("Location") != "" {
				t.Errorf("a choice that was not on the page: %s", forged)
			}
			b.submit("decision", "allow", "scope", values["scope"][0])
			for _, silent := range []string{"", "none"} {
				if got := b.unasked(replaced(asks(c), "prompt", silent)); got != "consent_required" {
					t.Errorf("prompt=%s: %s", silent, got)
				}
			}
			p.asksAgain(t, asks(c))
			p.asksAgain(t, asks(c))
		})
	}
	t.Run("J14/nobody vouches any more", func(t *testing.T) {
		t.Parallel()
		p, c := newAtProvider(t, nil), testClients()["native"]
		p.must(dcr.Vouch(t.Context(), p.store, c.ID, true))
		b := p.newBrowser()
		b.arrive(p.company, "company", asks(c))
		b.decide(asks(c), "always")
		if got := b.unasked(asks(c)); got != "code" {
			t.Errorf("while the operator vouches: %s", got)
		}
		p.must(dcr.Vouch(t.Context(), p.store, c.ID, false))
		if got := b.unasked(asks(c)); got != "consent_required" {
			t.Errorf("%s", got)
		}
		p.asksAgain(t, asks(c))
	})
	t.Run("J14/another program on another port", func(t *testing.T) {
		t.Parallel()
		p, c := newAtProvider(t, nil), testClients()["native"]
		b := p.newBrowser()
		b.granted(p.company, c)
		other := replaced(asks(c), "redirect_uri", "http://127.0.0.1:6666/callback")
		if got := b.unasked(other); got != "consent_required" {
			t.Errorf("%s", got)
		}
		p.asksAgain(t, other, "127.0.0.1:6666")
	})
}
