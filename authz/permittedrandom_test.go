package authz_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"

	"gatehouse.example/authz"
	"gatehouse.example/storage"
)

// randomRules gives the resources of c random rules. They share the scope profile.
func randomRules(r *rand.Rand, c *authz.Config) {
	sharing(c)
	allow := func() authz.Allow {
		var a authz.Allow
		if r.IntN(3) == 0 {
			a.Groups = []string{[]string{"a", "b", "company/a"}[r.IntN(3)], "b"}[:1+r.IntN(2)]
		}
		if r.IntN(6) == 0 {
			a.People = []string{[]string{personName, "somebody"}[r.IntN(2)]}
		}
		return a
	}
	for i := range c.Resources {
		c.Resources[i].Allow = allow()
		for j := range c.Resources[i].Scopes {
			c.Resources[i].Scopes[j].Allow = allow()
		}
	}
}

// TestPageTokenAndIntrospectionAgree: under random rules, in random groups, at two processes: what
// the consent page offers is what a token of all of it carries, what introspection says of it and
// what a refresh gives, resource by resource; and nothing of it that was not offered.
func TestPageTokenAndIntrospectionAgree(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(4, 15))
	open := 0
	for range 20 {
		resources := authz.Config{Resources: bothResources()}
		randomRules(r, &resources)
		config := func(c *authz.Config) {
			c.Resources, c.Groups = resources.Resources, map[string][]string{"a": nil, "b": {personName}}
			c.SetProviders("company")
		}
		h, c := newHarness(t, setup{config: config}), testClients()["native"]
		other := newHarness(t, setup{store: h.store, config: config})
		open += h.agree(c, other, r)
	}
	if open < 100 {
		t.Errorf("only %d permissions were open: the test tests little", open)
	}
}

// agree walks through the states of one configuration and returns how much was open.
func (h *harness) agree(c testClient, other *harness, r *rand.Rand) (open int) {
	h.t.Helper()
	request := asksFor(c, "", notes, tasks, files)
	var grants []heldGrant
	for range 3 {
		h.inRandomGroups(r)
		page := h.offers(c, request)
		grant, granted := h.grantAll(c, request, page)
		if granted {
			grants = append(grants, grant)
		}
		for i := range grants {
			for _, at := range []string{notes, tasks, files} {
				h.mustAgree(&grants[i], other, at, page[at], granted && i == len(grants)-1)
			}
		}
		for _, scopes := range page {
			open += 1 + len(scopes)
		}
	}
	return open
}

// inRandomGroups gives the person random groups of a provider and of this server.
func (h *harness) inRandomGroups(r *rand.Rand) {
	h.t.Helper()
	h.changePerson(func(u *storage.User) {
		u.Identities = []storage.Identity{{Provider: "company", Issuer: "https://login.example.com", Groups: []string{"a", "b"}[:r.IntN(3)]}}
	})
}

// offers returns what the consent page offers: the scopes of each resource.
func (h *harness) offers(c testClient, request map[string][]string) map[string][]string {
	h.t.Helper()
	b, offered := h.newBrowser(), map[string][]string{}
	b.walk(request, "perhaps")
	for _, boxes := range b.page.boxes() {
		for _, box := range boxes {
			resource, scope, several := strings.Cut(box, " ")
			if !several && !strings.Contains(box, "://") { // one resource: the box is a scope
				resource, scope = "", box
			}
			if offered[resource] == nil {
				offered[resource] = []string{}
			}
			if scope != "" {
				offered[resource] = append(offered[resource], scope)
			}
		}
	}
	if only, ok := offered[""]; ok {
		delete(offered, "")
		for _, at := range []string{notes, tasks} {
			if strings.Contains(b.page.body, map[string]string{notes: "Notes", tasks: "Tasks"}[at]+"</bdi> on your behalf") {
				offered[at] = only
			}
		}
	}
	if len(offered) == 0 && strings.Contains(b.page.body, "Files</bdi> on your behalf") {
		offered[files] = []string{}
	}
	return offered
}

// grantAll allows all that is offered and redeems the code for the first resource.
func (h *harness) grantAll(c testClient, request map[string][]string, offered map[string][]string) (heldGrant, bool) {
	h.t.Helper()
	if len(offered) == 0 {
		return heldGrant{}, false
	}
	for _, at := range []string{notes, tasks, files} {
		if _, ok := offered[at]; ok {
			return h.redeemFor(c, h.newBrowser().walk(request, "allow"), at), true
		}
	}
	h.t.Fatal("nothing known is offered")
	return heldGrant{}, false
}

// mustAgree checks that a grant gives no more at a resource than the page offers now, and all of
// it if the grant is for everything; and that the token, introspection and the other process say
// the same.
func (h *harness) mustAgree(l *heldGrant, other *harness, at string, offered []string, everything bool) {
	h.t.Helper()
	answer := l.token(at)
	if answer.status != http.StatusOK {
		if everything && offered != nil {
			h.t.Errorf("%s: no token where the page offers %v: %s", at, offered, answer)
		}
		if code := answer.member(h.t, "error"); code != "invalid_target" && code != "invalid_grant" {
			h.t.Errorf("%s: %s", at, answer)
		}
		return
	}
	access := answer.member(h.t, "access_token")
	scopes := strings.Fields(answer.member(h.t, "scope"))
	more := slices.ContainsFunc(scopes, func(s string) bool { return !slices.Contains(offered, s) })
	if offered == nil || more || everything && len(scopes) != len(offered) {
		h.t.Errorf("%s: a token with %v where the page offers %v", at, scopes, offered)
	}
	for _, process := range []*harness{h, other} {
		if got := process.scopeAt(at, access); got != strings.Join(scopes, " ") {
			h.t.Errorf("%s: introspection says %q of a token with %v", at, got, scopes)
		}
	}
	if fmt.Sprint(claims(h.t, access)["scope"]) != strings.Join(scopes, " ") && len(scopes) > 0 {
		h.t.Errorf("%s: the token says %v", at, claims(h.t, access)["scope"])
	}
}
