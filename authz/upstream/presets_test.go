package upstream_test

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gatehouse.example/authz/upstream"
	"gatehouse.example/authz/upstream/upstreamtest"
)

const otherTenant = "99999999-2222-3333-4444-555555555555"

// At Entra a person is of the tenant that tid and the issuer name together.
func TestEntra(t *testing.T) {
	own := func(name string) func(*upstream.Provider) {
		return func(p *upstream.Provider) { p.Issuer = strings.Replace(p.Issuer, "organizations", name, 1) }
	}
	for name, test := range map[string]struct {
		change func(*upstream.Provider)
		claims map[string]any
		id     func(map[string]any)
		reason upstream.Reason
	}{
		"any tenant":      {func(*upstream.Provider) {}, nil, nil, ""},
		"another tenant":  {func(*upstream.Provider) {}, map[string]any{"tid": otherTenant}, nil, ""},
		"one tenant":      {own(upstreamtest.Tenant), nil, nil, ""},
		"not that tenant": {own(upstreamtest.Tenant), map[string]any{"tid": otherTenant}, nil, upstream.ReasonIssuer},
		"tid of another":  {func(*upstream.Provider) {}, nil, func(c map[string]any) { c["tid"] = otherTenant }, upstream.ReasonIssuer},
		"no tid":          {func(*upstream.Provider) {}, nil, func(c map[string]any) { delete(c, "tid") }, upstream.ReasonIssuer},
		"issuer is template": {func(*upstream.Provider) {}, nil, func(c map[string]any) {
			c["iss"] = strings.Replace(c["iss"].(string), upstreamtest.Tenant, "{tenantid}", 1)
		}, upstream.ReasonIssuer},
		"issuer is common": {func(*upstream.Provider) {}, nil, func(c map[string]any) {
			c["iss"] = strings.Replace(c["iss"].(string), upstreamtest.Tenant, "organizations", 1)
		}, upstream.ReasonIssuer},
		"issuer elsewhere": {func(*upstream.Provider) {}, nil, func(c map[string]any) { c["iss"] = "https://login.example.com/" + upstreamtest.Tenant + "/v2.0" }, upstream.ReasonIssuer},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, upstream.Entra, test.change)
			s.fake.SignIn(upstreamtest.Person{Subject: "Sub-of-Ada", Claims: merged(test.claims, map[string]any{
				"oid": "aaaaaaaa-2222-3333-4444-555555555555", "email": "ada@example.com", "email_verified": true, "preferred_username": "boss@example.com"})})
			s.fake.Change(func(a *upstreamtest.Answers) { a.IDToken = test.id })
			a, err := s.signIn()
			if test.reason != "" {
				refuses(t, err, upstream.ErrInvalid, test.reason)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			tenant, _ := test.claims["tid"].(string)
			if tenant == "" {
				tenant = upstreamtest.Tenant
			}
			if a.Issuer != s.fake.URL()+"/"+tenant+"/v2.0" || a.Domain != tenant || a.EmailVerified || a.Handle != "aaaaaaaa-2222-3333-4444-555555555555" {
				t.Errorf("arrived %+v", a)
			}
			if s.fake.Requests("/userinfo") > 0 {
				t.Error("Entra's userinfo was asked, which knows no tenants")
			}
		})
	}
}

// A key that Entra publishes for one tenant signs for that tenant only.
func TestEntraKeys(t *testing.T) {
	for issuer, fine := range map[string]bool{"{tenantid}": true, upstreamtest.Tenant: true, otherTenant: false} {
		s := start(t, upstream.Entra)
		s.client.Hurry()
		k := publishedKey(t, s.fake)
		data, err := k.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		published := decode(t, data)
		published["issuer"] = s.fake.URL() + "/" + issuer + "/v2.0"
		s.fake.Change(func(a *upstreamtest.Answers) {
			a.First = func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path == "/jwks" {
					writeJSON(w, map[string]any{"keys": []any{published}})
				}
				return r.URL.Path == "/jwks"
			}
		})
		if _, err := s.signIn(); (err == nil) != fine {
			t.Errorf("key of %s: %v", issuer, err)
		}
	}
}

func merged(maps ...map[string]any) map[string]any {
	all := map[string]any{}
	for _, m := range maps {
		for k, v := range m {
			all[k] = v
		}
	}
	return all
}

// Groups that Entra hides are never taken for no groups, where anything depends on them.
func TestEntraGroupsOverage(t *testing.T) {
	hidden := map[string]any{"_claim_names": map[string]any{"groups": "src1"}, "_claim_sources": map[string]any{"src1": map[string]any{"endpoint": "https://graph.example.com"}}}
	for name, test := range map[string]struct {
		needed bool
		allow  upstream.Allow
		claims map[string]any
	}{
		"allow":      {false, upstream.Allow{Domains: []string{upstreamtest.Tenant}, Groups: []string{"staff"}}, hidden},
		"resources":  {true, upstream.Allow{Domains: []string{upstreamtest.Tenant}}, hidden},
		"hasgroups":  {true, upstream.Allow{Anybody: true}, map[string]any{"hasgroups": true}},
		"not needed": {false, upstream.Allow{Anybody: true}, hidden},
	} {
		t.Run(name, func(t *testing.T) {
			s := startWith(t, upstreamtest.New(t), upstream.Entra, upstream.Options{}, func(p *upstream.Provider) { p.Allow = test.allow })
			s.fake.SignIn(upstreamtest.Person{Subject: "1", Claims: test.claims})
			attempt := upstream.NewAttempt("state")
			attempt.NeedGroups = test.needed
			a, err := s.finish(attempt)
			if name != "not needed" {
				refuses(t, err, upstream.ErrMisconfigured, upstream.ReasonGroups)
			} else if err != nil || a.GroupsKnown {
				t.Errorf("arrived %+v, %v", a, err)
			}
		})
	}
}

// Google's hd is the domain, and Google vouches for an address only if it is its own or the domain's.
func TestGoogle(t *testing.T) {
	for name, test := range map[string]struct {
		claims   map[string]any
		domain   string
		verified bool
	}{
		"workspace":         {map[string]any{"hd": "Example.com", "email": "ada@example.com", "email_verified": true}, "example.com", true},
		"gmail":             {map[string]any{"email": "ada@gmail.com", "email_verified": true}, "", true},
		"address elsewhere": {map[string]any{"email": "ada@example.com", "email_verified": true}, "", false},
		"not verified":      {map[string]any{"hd": "example.com", "email": "ada@example.com", "email_verified": false}, "example.com", false},
		"verified as text":  {map[string]any{"hd": "example.com", "email": "ada@example.com", "email_verified": "true"}, "example.com", false},
		"hd is a list":      {map[string]any{"hd": []string{"example.com"}}, "", false},
		"like gmail":        {map[string]any{"email": "ada@notgmail.com", "email_verified": true}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, upstream.Google)
			s.fake.SignIn(upstreamtest.Person{Subject: "118", Claims: test.claims})
			a := s.arrives()
			if a.Domain != test.domain || a.EmailVerified != test.verified {
				t.Errorf("arrived %+v", a)
			}
		})
	}
}

func TestGitHub(t *testing.T) {
	allow := func(p *upstream.Provider) {
		p.Allow = upstream.Allow{Organisations: []string{"Example"}, Groups: []string{"example/Admins"}}
	}
	s := start(t, upstream.GitHub, allow)
	s.fake.SignIn(upstreamtest.Person{Subject: "583231", GitHub: upstreamtest.GitHub{
		Login: "Ada-L", Name: "Ada", Emails: []string{"ada@example.com"}, Organisations: []string{"Example", "other"}, Teams: []string{"Example/admins", "other/x"},
	}})
	a := s.arrives()
	if a.Issuer != s.fake.URL() || a.Subject != "583231" || a.Handle != "ada-l" || a.Login != "ada-l" || !a.EmailVerified || a.Domain != "" ||
		!slices.Equal(a.Organisations, []string{"example", "other"}) || !slices.Equal(a.Groups, []string{"example/admins", "other/x"}) {
		t.Errorf("arrived %+v", a)
	}
	if _, err := s.client.Admits(a, nil); err != nil {
		t.Error(err)
	}
	if s.fake.Requests("/userinfo")+s.fake.Requests("/jwks")+s.fake.Requests("/.well-known/openid-configuration") > 0 {
		t.Error("GitHub was asked for OpenID Connect")
	}
	// Without a rule about organisations and teams nobody's are read.
	s = start(t, upstream.GitHub)
	s.arrives()
	if s.fake.Requests("/api/v3/user/orgs")+s.fake.Requests("/api/v3/user/teams") > 0 {
		t.Error("organisations or teams were read for nothing")
	}
}

// Answers of GitHub's API that name nobody, or not everything, let nobody in.
func TestGitHubAnswers(t *testing.T) {
	needs := func(p *upstream.Provider) { p.Allow = upstream.Allow{Groups: []string{"example/admins"}} }
	teams := `[` + strings.TrimSuffix(strings.Repeat(`{"slug":"t","organization":{"login":"example"}},`, 100), ",") + `]`
	for name, test := range map[string]struct {
		path   string
		status int
		body   string
		kind   error
		reason upstream.Reason
	}{
		"no id":               {"/api/v3/user", 200, `{"login":"ada"}`, upstream.ErrInvalid, upstream.ReasonPerson},
		"no login":            {"/api/v3/user", 200, `{"id":1}`, upstream.ErrInvalid, upstream.ReasonPerson},
		"id is text":          {"/api/v3/user", 200, `{"id":"1","login":"ada"}`, upstream.ErrInvalid, upstream.ReasonNonsense},
		"id twice":            {"/api/v3/user", 200, `{"id":1,"id":2,"login":"ada"}`, upstream.ErrInvalid, upstream.ReasonNonsense},
		"unauthorised":        {"/api/v3/user", 401, `{"id":1,"login":"ada"}`, upstream.ErrInvalid, upstream.ReasonPerson},
		"forbidden":           {"/api/v3/user", 403, `{}`, upstream.ErrInvalid, upstream.ReasonPerson},
		"teams not found":     {"/api/v3/user/teams", 404, `{}`, upstream.ErrMisconfigured, upstream.ReasonGroups},
		"not found":           {"/api/v3/user", 404, `{}`, upstream.ErrInvalid, upstream.ReasonPerson},
		"teams not shown":     {"/api/v3/user/teams", 403, `{}`, upstream.ErrMisconfigured, upstream.ReasonGroups},
		"teams without end":   {"/api/v3/user/teams", 200, teams, upstream.ErrMisconfigured, upstream.ReasonGroups},
		"teams down":          {"/api/v3/user/teams", 502, `[]`, upstream.ErrUnavailable, upstream.ReasonDown},
		"code used (200)":     {"/login/oauth/access_token", 200, `{"error":"bad_verification_code"}`, upstream.ErrInvalid, upstream.ReasonCode},
		"wrong secret (200)":  {"/login/oauth/access_token", 200, `{"error":"incorrect_client_credentials"}`, upstream.ErrMisconfigured, upstream.ReasonClient},
		"a form as an answer": {"/login/oauth/access_token", 200, `access_token=x&token_type=bearer`, upstream.ErrInvalid, upstream.ReasonNonsense},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, upstream.GitHub, needs)
			s.fake.Change(answerWith(test.path, test.status, test.body))
			_, err := s.signIn()
			refuses(t, err, test.kind, test.reason)
		})
	}
	// An app that may not see addresses still says who the person is.
	s := start(t, upstream.GitHub)
	s.fake.Change(answerWith("/api/v3/user/emails", 403, `{}`))
	if a := s.arrives(); a.Email != "" || a.EmailVerified {
		t.Errorf("arrived %+v", a)
	}
	hour := time.Hour
	for _, attempt := range []upstream.Attempt{{ForceLogin: true}, {MaxAge: &hour}} {
		whole := upstream.NewAttempt("state")
		whole.ForceLogin, whole.MaxAge = attempt.ForceLogin, attempt.MaxAge
		_, err := s.client.Begin(t.Context(), whole)
		refuses(t, err, upstream.ErrDenied, upstream.ReasonAge)
	}
}

// Of the addresses at GitHub the primary one counts, if it is one, and is proven only if GitHub says
// so. An organisation whose login cannot be one is left out.
func TestGitHubPerson(t *testing.T) {
	for body, want := range map[string]string{
		`[{"email":"ada@example.com","primary":true,"verified":true},{"email":"x@example.com","verified":true}]`: "ada@example.com true",
		`[{"email":"ada@example.com","primary":true,"verified":false}]`:                                          "ada@example.com false",
		`[{"email":"nonsense","primary":true,"verified":true}]`:                                                  " false",
	} {
		// A slash at the end of the address of GitHub is none of its path.
		s := start(t, upstream.GitHub, func(p *upstream.Provider) { p.Issuer += "/" })
		s.fake.Change(answerWith("/api/v3/user/emails", 200, body))
		if a := s.arrives(); a.Email+" "+strconv.FormatBool(a.EmailVerified) != want || a.GroupsKnown {
			t.Errorf("%s: arrived %+v", body, a)
		}
	}
	s := start(t, upstream.GitHub, func(p *upstream.Provider) {
		p.Allow = upstream.Allow{Organisations: []string{"example"}, Groups: []string{"example/admins"}}
	})
	s.fake.SignIn(upstreamtest.Person{Subject: "1", GitHub: upstreamtest.GitHub{Login: "ada", Organisations: []string{"a/b", "Example"}}})
	s.fake.Change(func(a *upstreamtest.Answers) {
		a.First = func(_ http.ResponseWriter, r *http.Request) bool {
			if h := r.Header; strings.HasPrefix(r.URL.Path, "/api/") && (h.Get("Accept") != "application/vnd.github+json" || h.Get("X-GitHub-Api-Version") != "2022-11-28") {
				t.Errorf("%s is asked with %v", r.URL.Path, h)
			}
			return false
		}
	})
	if a := s.arrives(); !slices.Equal(a.Organisations, []string{"example"}) || !a.GroupsKnown || len(a.Groups) > 0 {
		t.Errorf("arrived %+v", a)
	}
}

// The API of github.com and of sites on ghe.com has a host of its own, that of other servers a path.
func TestGitHubAPI(t *testing.T) {
	for issuer, want := range map[string]string{
		"https://github.com": "https://api.github.com", "https://example.ghe.com": "https://api.example.ghe.com",
		"https://github.example.com": "https://github.example.com/api/v3", "https://notghe.com": "https://notghe.com/api/v3",
		"https://ghe.com.example.com/": "https://ghe.com.example.com/api/v3",
	} {
		if got := upstream.GitHubAPI(issuer); got != want {
			t.Errorf("%s: %s, want %s", issuer, got, want)
		}
	}
}

// GitHub Apps get refresh tokens; bad_refresh_token is their invalid_grant.
func TestGitHubRecheck(t *testing.T) {
	s := start(t, upstream.GitHub, rechecking)
	a := s.arrives()
	if _, err := s.client.Recheck(t.Context(), held(a)); err != nil {
		t.Error(err)
	}
	s.fake.Change(answerWith("/login/oauth/access_token", 200, `{"error":"bad_refresh_token"}`))
	_, err := s.client.Recheck(t.Context(), held(a))
	refuses(t, err, upstream.ErrGone, upstream.ReasonGone)
}

// Whose tokens and callbacks are a provider's: Google has an older name, GitHub names an endpoint in
// callbacks, and at Entra the issuer must be that of one tenant, below the same address.
func TestIssues(t *testing.T) {
	const google, entra = "https://accounts.google.com", "https://login.example.com/"
	for _, tt := range []struct {
		preset, issuer, of string
		want               bool
	}{
		{upstream.Google, google, google, true},
		{upstream.Google, google, "accounts.google.com", true},
		{upstream.Google, google, google + "/", false},
		{upstream.Google, google, "", false},
		{upstream.Google, "https://login.example.com", "accounts.google.com", false},
		{upstream.OIDC, google, "accounts.google.com", false},
		{upstream.GitHub, "https://github.com", "https://github.com/login/oauth", true},
		{upstream.GitHub, "https://github.example.com/", "https://github.example.com/login/oauth", true},
		{upstream.GitHub, "https://github.com", "https://github.com", true},
		{upstream.GitHub, "https://github.com", "https://github.example.com/login/oauth", false},
		{upstream.OIDC, "https://github.com", "https://github.com/login/oauth", false},
		{upstream.Entra, entra + "organizations/v2.0", entra + upstreamtest.Tenant + "/v2.0", true},
		{upstream.Entra, entra + "common/v2.0", entra + otherTenant + "/v2.0", true},
		{upstream.Entra, entra + upstreamtest.Tenant + "/v2.0", entra + upstreamtest.Tenant + "/v2.0", true},
		{upstream.Entra, entra + upstreamtest.Tenant + "/v2.0", entra + otherTenant + "/v2.0", false},
		{upstream.Entra, entra + "organizations/v2.0", entra + "organizations/v2.0", false},
		{upstream.Entra, entra + "organizations/v2.0", entra + "{tenantid}/v2.0", false},
		{upstream.Entra, entra + "organizations/v2.0", entra + upstreamtest.Tenant, false},
		{upstream.Entra, entra + "organizations/v2.0", entra + upstreamtest.Tenant + "/", false},
		{upstream.Entra, entra + "organizations/v2.0", "https://login.example.org/" + upstreamtest.Tenant + "/v2.0", false},
		{upstream.Entra, entra + "organizations/v2.0", "", false},
		{upstream.Entra, entra + "organizations", entra + upstreamtest.Tenant + "/v2.0", false},
		{upstream.Entra, "organizations/v2.0", upstreamtest.Tenant + "/v2.0", false},
		{upstream.OIDC, entra + "organizations/v2.0", entra + upstreamtest.Tenant + "/v2.0", false},
	} {
		if got := (upstream.Provider{Preset: tt.preset, Issuer: tt.issuer}).Issues(tt.of); got != tt.want {
			t.Errorf("%s at %s, issuer %q: %t", tt.preset, tt.issuer, tt.of, got)
		}
	}
}
