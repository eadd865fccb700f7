package middleware_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// TestChallengesBesideRoles sends tokens that lack scopes: the challenge names those that the client
// can get, and there is none where its issuer grants one of them by a role.
func TestChallengesBesideRoles(t *testing.T) {
	mapping, plain := middlewaretest.NewIssuer(t), middlewaretest.NewIssuer(t)
	for _, order := range [][]string{{mapping.URL(), plain.URL()}, {plain.URL(), mapping.URL()}} {
		guard := mappedGuard(t, mapping, func(c *middleware.Config) {
			c.AuthorizationServers = order
			c.Policy.Scopes = []string{"notes:write", "notes:list"}
		})
		if got := body(t, guard.Metadata(), newRequest("GET", metaURL)); !strings.Contains(got, "notes:write") {
			t.Errorf("clients of the other issuer can ask for the scope: %s", got)
		}
		staff := []string{"staff"}
		for name, c := range map[string]struct {
			token string
			want  string // the scopes of the challenge; empty without one
		}{
			"no role":                   {mapping.Mint(claims{"aud": resource, "scope": "notes:list"}), ""},
			"neither role nor scope":    {mapping.Mint(claims{"aud": resource, "scope": "a"}), ""},
			"the role":                  {mapping.Mint(claims{"aud": resource, "scope": "a", "groups": staff}), "notes:list"},
			"of the issuer without map": {plain.Mint(claims{"aud": resource, "scope": "notes:list", "groups": staff}), "notes:write notes:list"},
		} {
			res := serve(guard.Protect(&inner{}), withToken(c.token))
			got := res.Header.Get("WWW-Authenticate")
			if res.StatusCode != http.StatusForbidden || c.want == "" && got != "" || c.want != "" && !strings.Contains(got, `scope="`+c.want+`"`) {
				t.Errorf("%s: %s %s, want %q", name, res.Status, got, c.want)
			}
		}
	}
}

// TestLimitsOfScopeMaps checks paths of the longest length and below the claim with the scopes, that
// a scope is granted once, and that rules belong to the guard once it is made.
func TestLimitsOfScopeMaps(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	path := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	rules := []middleware.ScopeRule{
		{Claim: path, Value: "x", Scopes: []string{"deep", "deep"}},
		{Claim: []string{"scope", "inner"}, Value: "x", Scopes: []string{"below"}},
	}
	guard := newGuard(t, issuer, func(c *middleware.Config) { c.Issuers = []middleware.Issuer{{URL: issuer.URL(), ScopeMap: rules}} })
	rules[0].Scopes[0], path[0] = "changed", "changed"
	value := any("x")
	for _, name := range []string{"h", "g", "f", "e", "d", "c", "b"} {
		value = claims{name: value}
	}
	token, err := guard.Verify(t.Context(), issuer.Mint(claims{"aud": resource, "scope": "x", "a": value}))
	if err != nil || !slices.Equal(token.Scopes, []string{"x", "deep"}) {
		t.Errorf("%+v, %v", token, err)
	}
}
