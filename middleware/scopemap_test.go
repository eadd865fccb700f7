package middleware_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// roles is a map for tokens of Keycloak: a role of the realm, one of a client, and claims with dots
// and slashes in their names.
var roles = []middleware.ScopeRule{
	{Claim: []string{"realm_access", "roles"}, Value: "notes-admin", Scopes: []string{"notes:write", "notes:admin"}},
	{Claim: []string{"resource_access", "notes", "roles"}, Value: "writer", Scopes: []string{"notes:write"}},
	{Claim: []string{"https://example.com/roles"}, Value: "Chief Editor", Scopes: []string{"notes:admin"}},
	{Claim: []string{"a.b", "c/d"}, Value: "x", Scopes: []string{"dotted"}},
	{Claim: []string{"scope"}, Value: "editors", Scopes: []string{"notes:edit"}},
}

func realm(names ...any) claims { return claims{"realm_access": claims{"roles": names}} }

// mappedTokens are claims of a token whose scope is "openid notes:read notes:write", and its scopes
// by the rules above, after the two that no rule names.
var mappedTokens = map[string]struct {
	claims claims
	want   string
}{
	"no role":                     {nil, ""},
	"a role of the realm":         {realm("offline_access", "notes-admin"), "notes:write notes:admin"},
	"a role of a client":          {claims{"resource_access": claims{"notes": claims{"roles": []string{"writer"}}}}, "notes:write"},
	"two roles":                   {with(realm("notes-admin"), claims{"resource_access": claims{"notes": claims{"roles": []string{"writer"}}}}), "notes:write notes:admin"},
	"a role of another client":    {claims{"resource_access": claims{"other": claims{"roles": []string{"writer"}}}}, ""},
	"a role of the wrong place":   {claims{"resource_access": claims{"notes": claims{"roles": []string{"notes-admin"}}}}, ""},
	"other case":                  {realm("Notes-Admin"), ""},
	"part of a role":              {realm("notes-admin2", "notes-admi", "x notes-admin"), ""},
	"a role that is no text":      {realm(7, nil, true, "notes-admin"), "notes:write notes:admin"},
	"roles that are no array":     {claims{"realm_access": claims{"roles": claims{"notes-admin": true}}}, ""},
	"roles as members":            {claims{"realm_access": claims{"roles": claims{"notes-admin": claims{"org": "x"}}}}, "notes:write notes:admin"},
	"a member that is null":       {claims{"realm_access": claims{"roles": claims{"notes-admin": nil}}}, ""},
	"roles within an array":       {realm([]string{"notes-admin"}), ""},
	"no object on the way":        {claims{"realm_access": []string{"notes-admin"}}, ""},
	"null on the way":             {claims{"realm_access": claims{"roles": nil}}, ""},
	"the path as one name":        {claims{"realm_access.roles": []string{"notes-admin"}}, ""},
	"a name with slashes":         {claims{"https://example.com/roles": "Chief Editor"}, "notes:admin"},
	"a name with slashes, array":  {claims{"https://example.com/roles": []string{"Chief Editor"}}, "notes:admin"},
	"a role in a longer text":     {claims{"https://example.com/roles": "Chief Editor of nothing"}, ""},
	"names with dots and slashes": {claims{"a.b": claims{"c/d": "x"}}, "dotted"},
	"a scope as a role":           {claims{"scope": "openid notes:read editors"}, "editors notes:edit"},
	"a scope that a rule names":   {claims{"scope": "openid notes:read notes:admin notes:edit dotted"}, ""},
}

// TestScopeMap checks which scopes a token has by its roles, and that its own scopes never stand in
// for a role.
func TestScopeMap(t *testing.T) {
	one := issuerOf(t, middleware.Keycloak, profiles[middleware.Keycloak])
	one.ScopeMap = roles
	guard := guardOf(t, one)
	for name, tt := range mappedTokens {
		token := wantVerdict(t, guard, tokenOf(t, shapes["Keycloak"], one.URL, claims{"realm_access": nil}, tt.claims), nil)
		want := strings.Fields("openid notes:read " + tt.want)
		if !slices.Equal(token.Scopes, want) {
			t.Errorf("%s: %q, want %q", name, token.Scopes, want)
		}
		for _, scope := range []string{"notes:write", "notes:admin", "notes:edit", "dotted"} {
			if token.HasScope(scope) != slices.Contains(want, scope) {
				t.Errorf("%s: HasScope(%s) is wrong", name, scope)
			}
		}
	}
}

// TestScopeMapOfProfiles checks that the map works in each profile, and leaves the evidence of an
// access token as it is.
func TestScopeMapOfProfiles(t *testing.T) {
	for _, d := range wardrobe {
		issuer := middlewaretest.NewIssuer(t)
		one := d.dress(issuer)
		one.ScopeMap = []middleware.ScopeRule{{Claim: []string{"groups"}, Value: "staff", Scopes: []string{"notes:write"}}}
		guard := guardOf(t, one)
		token := wantVerdict(t, guard, issuer.Mint(claims{"aud": resource, "scope": "notes:write", "groups": []string{"staff"}}), nil)
		if !token.HasScope("notes:write") {
			t.Errorf("%s: %q", d.profile, token.Scopes)
		}
		if token = wantVerdict(t, guard, issuer.Mint(claims{"aud": resource, "scope": "notes:write a"}), nil); !slices.Equal(token.Scopes, []string{"a"}) {
			t.Errorf("%s: %q", d.profile, token.Scopes)
		}
		for _, broken := range issuer.Broken(resource) {
			if _, err := guard.Verify(t.Context(), broken.Token); (err == nil) != slices.Contains(d.accepts, broken.Name) {
				t.Errorf("%s: %s: %v", d.profile, broken.Name, err)
			}
		}
	}
}

// bearing returns a request with a token, or without credentials.
func bearing(token string) *http.Request {
	if token == "" {
		return newRequest("POST", resource)
	}
	return withToken(token)
}

// calling returns a request with a token and a message.
func calling(token, message string) *http.Request {
	r := httptest.NewRequest("POST", resource, strings.NewReader(message))
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	return r
}

func textOf(t *testing.T, res *http.Response) string {
	t.Helper()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// mappedGuard returns a guard for tokens of RFC 9068 whose groups grant notes:write, and what its
// handler is.
func mappedGuard(t *testing.T, issuer *middlewaretest.Issuer, change ...func(*middleware.Config)) *middleware.Guard {
	return newGuard(t, issuer, append([]func(*middleware.Config){func(c *middleware.Config) {
		c.Issuers = []middleware.Issuer{{URL: issuer.URL(), ScopeMap: []middleware.ScopeRule{
			{Claim: []string{"groups"}, Value: "staff", Scopes: []string{"notes:write"}}}}}
		c.Scopes = []string{"notes:read", "notes:write", "notes:list"}
	}}, change...)...)
}

// TestScopesOfRolesAreNotAskedFor checks that no challenge, no metadata and no list tells a client
// to ask for a scope that it gets by a role alone, and that the refusal for it has no challenge,
// so that no client signs in again and again for it.
func TestScopesOfRolesAreNotAskedFor(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := mappedGuard(t, issuer, func(c *middleware.Config) {
		c.Policy.Scopes = []string{"notes:read"}
		c.Policy.Implies = map[string][]string{"notes:write": {"notes:list"}}
	})
	mint := func(scope string, groups ...string) string {
		return issuer.Mint(claims{"aud": resource, "scope": scope, "groups": groups})
	}
	send := func(needed []string, token string) *http.Response {
		var handler http.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
		if needed != nil {
			handler = guard.RequireScope(needed...)(handler)
		}
		return serve(guard.Protect(handler), bearing(token))
	}
	for name, tt := range map[string]struct {
		needed []string
		token  string
		status int
		scope  string // of the challenge; "-" for none
	}{
		"no token":                          {nil, "", 401, "notes:read notes:list"},
		"a role is there":                   {[]string{"notes:write"}, mint("notes:read", "staff"), 418, ""},
		"a role implies":                    {[]string{"notes:list"}, mint("notes:read", "staff"), 418, ""},
		"a role is missing":                 {[]string{"notes:write"}, mint("notes:read notes:write"), 403, "-"},
		"both are missing, the scope first": {[]string{"notes:write"}, mint("openid"), 403, "notes:read"},
		"both are missing":                  {[]string{"notes:write", "notes:own"}, mint("notes:read"), 403, "-"},
		"a scope is missing":                {[]string{"notes:write"}, mint("openid", "staff"), 403, "notes:read"},
		"a scope alone is missing":          {[]string{"notes:list"}, mint("notes:read"), 403, "notes:read notes:list"},
	} {
		res := send(tt.needed, tt.token)
		challenge := res.Header.Get("WWW-Authenticate")
		if res.StatusCode != tt.status || (challenge == "") != (tt.scope == "-" || tt.status == 418) {
			t.Errorf("%s: %d %s", name, res.StatusCode, challenge)
		} else if challenge != "" && !strings.Contains(challenge, `scope="`+tt.scope+`"`) {
			t.Errorf("%s: %s", name, challenge)
		}
	}
	document := serve(guard.Metadata(), newRequest("GET", metaURL))
	if text := textOf(t, document); strings.Contains(text, "notes:write") || !strings.Contains(text, `"notes:list"`) {
		t.Errorf("the metadata is %s", text)
	}
}

// TestScopesThatSomeClientsGet checks that a scope is named to clients without a token as long as
// one of the announced issuers grants it, and to others by their own issuer.
func TestScopesThatSomeClientsGet(t *testing.T) {
	mapped, other := middlewaretest.NewIssuer(t), middlewaretest.NewIssuer(t)
	guard := mappedGuard(t, mapped, func(c *middleware.Config) {
		c.AuthorizationServers = []string{mapped.URL(), other.URL()}
		c.Policy.Scopes = []string{"notes:write"}
	})
	handler := guard.Protect(http.NotFoundHandler())
	for issuer, want := range map[*middlewaretest.Issuer]bool{mapped: false, other: true} {
		res := serve(handler, withToken(issuer.Mint(claims{"aud": resource, "scope": "notes:read"})))
		if challenge := res.Header.Get("WWW-Authenticate"); res.StatusCode != http.StatusForbidden || strings.Contains(challenge, "notes:write") != want {
			t.Errorf("%d %q, want a challenge: %t", res.StatusCode, challenge, want)
		}
	}
	if challenge := serve(handler, bearing("")).Header.Get("WWW-Authenticate"); !strings.Contains(challenge, "notes:write") {
		t.Error(challenge)
	}
	if text := textOf(t, serve(guard.Metadata(), newRequest("GET", metaURL))); !strings.Contains(text, "notes:write") {
		t.Error(text)
	}
}

// TestScopeMapInLists checks that tools which need a role are listed for those who have it, and
// hidden from others, who cannot get a token for them.
func TestScopeMapInLists(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := mappedGuard(t, issuer, func(c *middleware.Config) {
		c.Policy.Tools = map[string][]string{"read": {"notes:read"}, "write": {"notes:write"}}
	})
	list := `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"read"},{"name":"write"}]}}`
	handler := guard.Protect(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(list))
	}))
	for groups, want := range map[string]string{"staff": "write", "guests": "read " + middleware.MissingScopesKey} {
		token := issuer.Mint(claims{"aud": resource, "scope": "openid", "groups": []string{groups}})
		text := textOf(t, serve(handler, calling(token, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)))
		if strings.Contains(text, `"write"`) != (want == "write") || !strings.Contains(text, `"read"`) || !strings.Contains(text, middleware.MissingScopesKey) {
			t.Errorf("%s: %s", groups, text)
		}
		text = textOf(t, serve(handler, calling(token, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"write"}}`)))
		if strings.Contains(text, "This needs a role") != (groups == "guests") {
			t.Errorf("%s: %s", groups, text)
		}
	}
}

// TestScopeMapAndIntrospection checks roles in introspection responses: they decide about an opaque
// token, and take roles from a token with claims, but never add one.
func TestScopeMapAndIntrospection(t *testing.T) {
	inToken := claims{"staff": []string{"staff"}, "other": []string{"other"}, "none": nil}
	for name, tt := range map[string]struct {
		answer       claims
		opaque       bool   // whether an opaque token has notes:write
		staff, other bool   // whether a token with the role, or with another, has notes:write
		rest         string // the other scopes of a token with "notes:read a"
	}{
		"the same role":         {claims{"groups": `["staff"]`, "scope": nil}, true, true, false, "notes:read a"},
		"no groups":             {claims{"scope": nil}, false, true, false, "notes:read a"},
		"another role":          {claims{"groups": `["other"]`, "scope": nil}, false, false, false, "notes:read a"},
		"no role any more":      {claims{"groups": `[]`, "scope": nil}, false, false, false, "notes:read a"},
		"null":                  {claims{"groups": `null`, "scope": nil}, false, false, false, "notes:read a"},
		"a scope for the role":  {claims{"scope": `"notes:write notes:read"`}, false, true, false, "notes:read"},
		"a scope, not the role": {claims{"groups": `["other"]`, "scope": `"notes:write a"`}, false, false, false, "a"},
		"fewer scopes":          {claims{"groups": `["staff"]`, "scope": `"a"`}, true, true, false, "a"},
		"no scopes":             {claims{"groups": `["staff"]`, "scope": `""`}, true, true, false, ""},
	} {
		issuer := middlewaretest.NewIssuer(t)
		answers(issuer, answered(tt.answer))
		token := wantVerdict(t, mappedGuard(t, issuer, introspects(issuer, opaque)), "opaque", nil)
		if token.HasScope("notes:write") != tt.opaque {
			t.Errorf("%s: opaque: %q", name, token.Scopes)
		}
		guard := mappedGuard(t, issuer, introspects(issuer))
		for groups, want := range map[string]bool{"staff": tt.staff, "other": tt.other, "none": false} {
			token := wantVerdict(t, guard, issuer.Mint(claims{"aud": resource, "client_id": "client", "scope": "notes:read a notes:write", "groups": inToken[groups]}), nil)
			rest := slices.DeleteFunc(slices.Clone(token.Scopes), func(s string) bool { return s == "notes:write" })
			if token.HasScope("notes:write") != want || strings.Join(rest, " ") != tt.rest {
				t.Errorf("%s: %s: %q", name, groups, token.Scopes)
			}
		}
	}
}

// TestScopeMapMistakes checks what New says about rules that cannot work.
func TestScopeMapMistakes(t *testing.T) {
	good := middleware.ScopeRule{Claim: []string{"groups"}, Value: "staff", Scopes: []string{"notes:write"}}
	for want, change := range map[string]func(*middleware.ScopeRule){
		"the claim has no name":                   func(r *middleware.ScopeRule) { r.Claim = nil },
		"rule 2 of ScopeMap: the claim has no":    func(r *middleware.ScopeRule) { r.Claim = []string{"groups", ""} },
		"the claim has more than 8 names":         func(r *middleware.ScopeRule) { r.Claim = strings.Split("a b c d e f g h i", " ") },
		`the claim "aud" holds no roles`:          func(r *middleware.ScopeRule) { r.Claim = []string{"aud"} },
		"the value is empty":                      func(r *middleware.ScopeRule) { r.Value = "" },
		"it grants no scopes":                     func(r *middleware.ScopeRule) { r.Scopes = nil },
		`"a b" is not a scope`:                    func(r *middleware.ScopeRule) { r.Scopes = []string{"a b"} },
		`"offline_access" is not a scope of a `:   func(r *middleware.ScopeRule) { r.Scopes = []string{"offline_access"} },
		`issuer https://auth.example.com: rule 2`: func(r *middleware.ScopeRule) { r.Scopes = []string{""} },
	} {
		bad := good
		change(&bad)
		_, err := middleware.New(middleware.Config{Resource: resource, Issuers: []middleware.Issuer{
			{URL: "https://auth.example.com", ScopeMap: []middleware.ScopeRule{good, bad}}}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestScopeMapOfSharedIssuers checks that the rules of an issuer hold in every guard that shares it.
func TestScopeMapOfSharedIssuers(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	shared, err := middleware.NewIssuers(middleware.IssuersConfig{Issuers: []middleware.Issuer{{URL: issuer.URL(), ScopeMap: []middleware.ScopeRule{
		{Claim: []string{"groups"}, Value: "staff", Scopes: []string{"notes:write"}}}}}})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		guard, err := middleware.New(middleware.Config{Resource: resource, SharedIssuers: shared, Scopes: []string{"notes:read", "notes:write"},
			Policy: middleware.Policy{Scopes: []string{"notes:write"}}})
		if err != nil {
			t.Fatal(err)
		}
		for groups, status := range map[string]int{"staff": 404, "others": 403} {
			res := serve(guard.Protect(http.NotFoundHandler()), withToken(issuer.Mint(claims{"aud": resource, "scope": "notes:write", "groups": []string{groups}})))
			if res.StatusCode != status || res.Header.Get("WWW-Authenticate") != "" {
				t.Errorf("%s: %d %v", groups, res.StatusCode, res.Header)
			}
		}
		if challenge := serve(guard.Protect(http.NotFoundHandler()), bearing("")).Header.Get("WWW-Authenticate"); strings.Contains(challenge, "notes:write") {
			t.Error(challenge)
		}
	}
}
