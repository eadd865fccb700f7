package authz_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"gatehouse.example/authz"
	"gatehouse.example/authz/upstream"
	"gatehouse.example/authz/upstream/upstreamtest"
)

const engineering = "company/example/engineering"

// newAtGitHub is a harness whose provider shows teams only to a sign-in that asked for them.
func newAtGitHub(t *testing.T) *atProvider {
	t.Helper()
	p := newAtProvider(t, func(c *authz.Config) { c.Providers[0].Preset = upstream.GitHub })
	p.company.SignIn(upstreamtest.Person{GitHub: upstreamtest.GitHub{Login: "ada", Teams: []string{"example/engineering"}}, Subject: "1"})
	return p
}

// asksForGroups signs in with the provider, and reports whether it was asked for groups.
func (p *atProvider) asksForGroups(t testing.TB) bool {
	t.Helper()
	b := p.newBrowser()
	b.choose("company", asks(testClients()["native"]))
	to, err := url.Parse(b.submit("decision", "allow").header.Get("Location"))
	if err != nil || to.Host == "" {
		t.Fatalf("not sent to the provider: %v", err)
	}
	return strings.Contains(to.Query().Get("scope"), "read:org")
}

// TestGroupsOfStoredResources: whether a provider is asked for groups depends on the resources of
// this moment. After a resource with a rule was added to a running server, the next sign-in brings
// groups, and the person may use the resource; a sign-in that began before goes on without them.
func TestGroupsOfStoredResources(t *testing.T) {
	t.Parallel()
	p, c := newAtGitHub(t), testClients()["native"]
	before := p.newBrowser()
	before.choose("company", asks(c))
	back := before.leave(p.company)
	if p.asksForGroups(t) {
		t.Error("groups are asked for although nothing depends on them")
	}
	guarded := wikiResource()
	guarded.Allow = authz.Allow{Groups: []string{engineering}}
	p.add(authz.NewResource{Resource: guarded})
	p.clock.advance(seen)

	if r := before.open(back.String()); r.status != http.StatusSeeOther {
		t.Errorf("a sign-in from before the resource was added: %s", r)
	}
	if page := before.follow(); page.status != http.StatusOK {
		t.Errorf("its consent page: %s", page)
	}
	if groups := p.user(t, "company/ada").Identities[0].Groups; len(groups) != 0 {
		t.Errorf("it brought the groups %q", groups)
	}
	if !p.asksForGroups(t) {
		t.Error("groups are not asked for")
	}
	b := p.newBrowser()
	page := b.arrive(p.company, "company", asksFor(c, "wiki:read", wiki))
	if page.status != http.StatusOK || !strings.Contains(page.body, "Read the wiki") {
		t.Fatalf("the consent page: %s", page)
	}
	held := p.redeemFor(c, b.submit("decision", "allow", "scope", "wiki:read"), wiki)
	if access := held.token(wiki).member(t, "access_token"); !p.activeAt(wiki, wikiSecret, access) {
		t.Error("the token is not active")
	}
}

// TestWhenGroupsAreNeeded: rules of patterns and scopes count, and claims that tell groups; not
// those of other providers, of own groups, or of resources that are out of use or gone.
func TestWhenGroupsAreNeeded(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*authz.Resource)
		want   bool
	}{
		"nothing":          {func(*authz.Resource) {}, false},
		"resource":         {func(r *authz.Resource) { r.Allow.Groups = []string{"staff", engineering} }, true},
		"scope":            {func(r *authz.Resource) { r.Scopes[1].Allow.Groups = []string{engineering} }, true},
		"claim":            {func(r *authz.Resource) { r.Claims = []string{"email", "groups"} }, true},
		"other claims":     {func(r *authz.Resource) { r.Claims = []string{"email", "name"} }, false},
		"own group":        {func(r *authz.Resource) { r.Allow.Groups = []string{"staff"} }, false},
		"another provider": {func(r *authz.Resource) { r.Allow.Groups = []string{"other/engineering"} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, r := newAtGitHub(t), tenants()
			r.Scopes = append(r.Scopes[:0:0], r.Scopes...)
			test.change(&r)
			p.add(authz.NewResource{Resource: r})
			p.clock.advance(seen)
			if got := p.asksForGroups(t); got != test.want {
				t.Errorf("asks for groups: %t", got)
			}
			id, err := authz.ResourceID(r.URI)
			p.must(err)
			p.disable(id)
			if p.asksForGroups(t) {
				t.Error("asks for groups of a resource that is out of use")
			}
			p.enable(id)
			if got := p.asksForGroups(t); got != test.want {
				t.Errorf("in use again: asks for groups: %t", got)
			}
			p.remove(id)
			if p.asksForGroups(t) {
				t.Error("asks for groups of a resource that is gone")
			}
		})
	}
}

// TestRecheckOfBeforeTheRule: a person who signed in before anything depended on groups is checked
// as before, although the provider does not show groups to that sign-in: a new resource ends nobody.
// Groups that are hidden from a sign-in that asked for them are no answer, while something depends on
// them.
func TestRecheckOfBeforeTheRule(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ asked, gone, ended bool }{
		"groups were not asked for":     {},
		"groups were asked for":         {asked: true, ended: true},
		"nothing depends on groups now": {asked: true, gone: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newAtProvider(t, func(c *authz.Config) {
				c.Providers[0].Recheck, c.RecheckGrace = time.Hour, 4*time.Hour
				c.RefreshIdle, c.AccessTokenTTL, c.SessionIdle, c.SessionMax = 90*24*time.Hour, time.Hour, 7*24*time.Hour, 7*24*time.Hour
			})
			guarded := wikiResource()
			guarded.Allow = authz.Allow{Groups: []string{"company/engineering"}}
			if test.asked {
				p.add(authz.NewResource{Resource: guarded})
				p.clock.advance(seen)
			}
			b := p.newBrowser()
			held := b.granted(p.company, testClients()["native"])
			if !test.asked {
				p.add(authz.NewResource{Resource: guarded})
			}
			if test.gone {
				p.remove(wiki)
			}
			p.company.Change(func(a *upstreamtest.Answers) {
				a.IDToken = func(m map[string]any) {
					m["_claim_names"] = map[string]any{"groups": "src1"}
					m["_claim_sources"] = map[string]any{"src1": map[string]any{"endpoint": "https://graph.example.com"}}
				}
				a.Userinfo = a.IDToken
			})
			for range 4 {
				p.after(t, time.Hour)
				p.wantEnded(t, name, b, &held, false)
			}
			p.after(t, time.Hour)
			p.after(t, time.Hour)
			p.wantEnded(t, name, b, &held, test.ended)
		})
	}
}
