package authz_test

import (
	"strings"
	"testing"

	"gatehouse.example/authz"
)

// TestRulesRefused: a rule that names somebody who cannot exist is refused at the start.
func TestRulesRefused(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	allow := func(a authz.Allow) func(*authz.Config) { return func(c *authz.Config) { c.Resources[1].Allow = a } }
	for name, tt := range map[string]struct {
		change func(*authz.Config)
		says   string // empty: it starts
	}{
		"a group in capitals":        {allow(authz.Allow{Groups: []string{"Admins"}}), `allow: group "Admins"`},
		"an empty group":             {allow(authz.Allow{Groups: []string{""}}), `allow: group ""`},
		"an unknown provider":        {allow(authz.Allow{Groups: []string{"compny/admins"}}), "no provider compny (there are company, partner)"},
		"a provider without a group": {allow(authz.Allow{Groups: []string{"company/"}}), "PROVIDER/GROUP"},
		"a provider in capitals":     {allow(authz.Allow{Groups: []string{"Company/admins"}}), "PROVIDER/GROUP"},
		"no groups":                  {allow(authz.Allow{Groups: []string{}}), "empty list"},
		"no people":                  {allow(authz.Allow{Groups: []string{"a"}, People: []string{}}), "empty list"},
		"a person in capitals":       {allow(authz.Allow{People: []string{"Reader"}}), `write the name "Reader" as reader`},
		"no name":                    {allow(authz.Allow{People: []string{"a b"}}), `"a b" is not the name of a person`},
		"somebody of no provider":    {allow(authz.Allow{People: []string{"nowhere/ada@example.com"}}), "no provider nowhere"},
		"a slash alone":              {allow(authz.Allow{People: []string{"/"}}), "PROVIDER/HANDLE"},
		"a scope": {func(c *authz.Config) { c.Resources[0].Scopes[1].Allow.Groups = []string{"x y"} },
			"resource " + notes + `: scope notes:write: allow: group "x y"`},
		"an unknown claim":          {func(c *authz.Config) { c.Resources[0].Claims = []string{"sub"} }, `"sub" is not groups, email or name`},
		"a group of the file":       {func(c *authz.Config) { c.Groups = map[string][]string{"company/x": nil} }, `groups: "company/x"`},
		"a member of the file":      {func(c *authz.Config) { c.Groups = map[string][]string{"x": {"A"}} }, `groups: x: write the name "A" as a`},
		"an unknown provider there": {func(c *authz.Config) { c.Groups = map[string][]string{"x": {"nowhere/a"}} }, "no provider nowhere"},
		"what can be": {func(c *authz.Config) {
			c.Groups = map[string][]string{"x": {"ada", "company/ada@example.com"}, "y": {}}
			c.Resources[0].Allow = authz.Allow{Groups: []string{"x", "unknown", "company//team a/b"}, People: []string{"nobody-yet", "partner/1~2"}}
			c.Resources[0].Claims = []string{"groups", "email", "name"}
		}, ""},
	} {
		cfg := h.cfg
		cfg.Resources = bothResources()
		cfg.SetProviders("company", "partner")
		tt.change(&cfg)
		_, err := authz.New(t.Context(), cfg)
		if tt.says == "" && err != nil || tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says)) {
			t.Errorf("%s: %v, want %q", name, err, tt.says)
		}
	}
	log := h.log.String()
	if strings.Count(log, "does not exist") != 1 || !strings.Contains(log, "authz group add unknown") || !strings.Contains(log, notes) {
		t.Errorf("the log: %s", log)
	}
}

// TestRulesOfStoredResources: a rule of a resource in the store decides like one of the
// configuration, and one that is a mistake is not stored.
func TestRulesOfStoredResources(t *testing.T) {
	t.Parallel()
	h, c := newGuarded(t, nil), testClients()["native"]
	for _, bad := range []authz.Allow{{Groups: []string{}}, {People: []string{}}, {Groups: []string{"Staff"}}, {People: []string{"A"}}} {
		r := wikiResource()
		r.Allow = bad
		if _, err := authz.AddResource(t.Context(), h.store, authz.NewResource{Resource: r}); err == nil {
			t.Errorf("%+v is stored", bad)
		}
	}
	r := wikiResource()
	r.Allow, r.Claims = authz.Allow{Groups: []string{"staff"}}, []string{"groups"}
	h.add(authz.NewResource{Resource: r})
	h.changed(nil)
	held := h.newBrowser().tokens(c, asksFor(c, "", wiki))
	if got := told(claims(t, held.access)); got != "groups=[admins staff]" {
		t.Errorf("the token tells %q", got)
	}
	h.leave("staff")
	mustRefuse(t, h.toToken(c, refreshing(c, held.refresh)), 400, "invalid_grant")
	if in := h.introspectAs(wiki, wikiSecret, held.access).json(t); in["active"] != false {
		t.Errorf("introspection: %v", in)
	}
}
