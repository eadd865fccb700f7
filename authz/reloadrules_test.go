package authz_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"gatehouse.example/authz"
	"gatehouse.example/authz/upstream"
)

// atConsentFor opens the consent page of a request.
func (b *browser) atConsentFor(request url.Values) *browser {
	b.h.t.Helper()
	b.open(b.h.issuer + "/authorize?" + request.Encode())
	b.follow()
	b.submit("username", personName, "password", personPassword)
	if page := b.follow(); !strings.Contains(page.body, `name="decision"`) {
		b.h.t.Fatalf("not the consent page: %s", page)
	}
	return b
}

// decided sends the decision with the boxes of the page as they are.
func (b *browser) decided() reply {
	b.h.t.Helper()
	_, values := b.page.inputs(b.h.t)
	pairs := []string{"decision", "allow"}
	for _, scope := range values["scope"] {
		pairs = append(pairs, "scope", scope)
	}
	return b.submit(pairs...)
}

// TestReloadBetweenPageAndDecision: a decision is about what was on the page and is there now. What
// has come since is on a page first; what has gone is not granted.
func TestReloadBetweenPageAndDecision(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		name    string
		change  func(*authz.Config)
		granted string // the scopes of the token, "" for no code
		shows   string // on the page that follows
	}{
		{"nothing", unchanged, "notes:read notes:write", ""},
		{"a scope was renamed", func(c *authz.Config) { c.Resources[0].Scopes[1].Name = "notes:change" }, "", "notes:read"},
		{"a scope was added", func(c *authz.Config) {
			c.Resources[0].Scopes = append(c.Resources[0].Scopes, authz.Scope{Name: "notes:all", Description: "Everything"})
		}, "notes:read notes:write", ""},
		{"the resource was removed", func(c *authz.Config) { c.Resources = c.Resources[1:] }, "", ""},
		{"the resource is for others", func(c *authz.Config) { c.Resources[0].Allow.People = []string{"somebody"} }, "", ""},
		{"the resource has no scopes", func(c *authz.Config) { c.Resources[0].Scopes = nil }, "", ""},
	} {
		t.Run(one.name, func(t *testing.T) {
			t.Parallel()
			h, native := newHarness(t, setup{}), testClients()["native"]
			b := h.newBrowser().atConsentFor(asks(native))
			h.mustReload(one.change)
			answer := b.decided()
			if one.granted == "" {
				if answer.status == http.StatusSeeOther && answer.location(t).Query().Has("code") || !strings.Contains(answer.body, one.shows) {
					t.Errorf("want a page that shows %q and no code: %s", one.shows, answer)
				}
				return
			}
			tokens := h.toToken(native, redemption(native, answer.location(t).Query().Get("code")))
			if got := tokens.member(t, "scope"); got != one.granted {
				t.Errorf("the token has %q, want %q", got, one.granted)
			}
		})
	}
}

// TestReloadAfterDecision: a code and a grant are good for what is configured when they are used.
func TestReloadAfterDecision(t *testing.T) {
	t.Parallel()
	h, native := newHarness(t, setup{}), testClients()["native"]
	code, held := h.newBrowser().code(asks(native)), h.tokens(native)
	h.mustReload(func(c *authz.Config) { c.Resources = c.Resources[1:] })
	if answer := h.toToken(native, redemption(native, code)); answer.status != http.StatusBadRequest {
		t.Errorf("the code: %s", answer)
	}
	if answer := h.toToken(native, refreshing(native, held.refresh)); answer.status != http.StatusBadRequest {
		t.Errorf("the refresh token: %s", answer)
	}
	h.mustReload(unchanged)
	if answer := h.toToken(native, refreshing(native, held.refresh)); answer.status != http.StatusOK {
		t.Errorf("the refresh token, when the resource is back: %s", answer)
	}
}

// TestReloadDuringSignInAtProvider: who comes back from a provider that was taken out is not signed
// in. A sign-in at another one, and at one whose settings have changed, goes on.
func TestReloadDuringSignInAtProvider(t *testing.T) {
	t.Parallel()
	without := func(c *authz.Config) { c.Providers = c.Providers[1:] }
	renamed := func(c *authz.Config) {
		c.Providers = append([]upstream.Provider{}, c.Providers...)
		c.Providers[0].Name = "Another name"
	}
	stricter := func(c *authz.Config) {
		c.Providers = append([]upstream.Provider{}, c.Providers...)
		c.Providers[0].Allow = upstream.Allow{People: []string{"somebody@example.com"}}
	}
	for _, one := range []struct {
		name     string
		change   func(*authz.Config)
		provider string
		want     int
	}{
		{"another was removed", without, "other", http.StatusSeeOther},
		{"it was removed", without, "company", http.StatusNotFound},
		{"it was renamed", renamed, "company", http.StatusSeeOther},
		{"it admits others", stricter, "company", http.StatusForbidden},
	} {
		t.Run(one.name, func(t *testing.T) {
			t.Parallel()
			p := newAtProvider(t, nil)
			fake := p.company
			if one.provider == "other" {
				fake = p.other
			}
			fake.SignIn(personOf("1", "ada@example.com"))
			b := p.newBrowser()
			b.choose(one.provider, asks(testClients()["native"]))
			back := b.leave(fake)
			p.mustReload(one.change)
			if answer := b.open(back.String()); answer.status != one.want {
				t.Errorf("the callback: %s, want %d", answer, one.want)
			}
			if in := b.open(p.issuer+"/account").status == http.StatusOK; in != (one.want == http.StatusSeeOther) {
				t.Errorf("signed in: %v", in)
			}
		})
	}
}
