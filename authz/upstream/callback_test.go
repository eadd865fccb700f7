package upstream_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"gatehouse.example/authz/upstream"
	"gatehouse.example/authz/upstream/upstreamtest"
)

// The address of the provider carries everything that binds the sign-in.
func TestBegin(t *testing.T) {
	age := 90 * time.Second
	for name, test := range map[string]struct {
		preset string
		change func(*upstream.Provider)
		ask    upstream.Attempt
		want   map[string]string
	}{
		"oidc": {upstream.OIDC, nil, upstream.Attempt{LoginHint: "ada@example.com", MaxAge: &age, ForceLogin: true},
			map[string]string{"scope": "openid profile email", "login_hint": "ada@example.com", "max_age": "90", "prompt": "login", "response_mode": ""}},
		"oidc with recheck": {upstream.OIDC, func(p *upstream.Provider) { p.Recheck = time.Hour }, upstream.Attempt{ForceLogin: true},
			map[string]string{"scope": "openid profile email offline_access", "prompt": "login consent"}},
		"oidc with groups": {upstream.OIDC, func(p *upstream.Provider) { p.Allow = upstream.Allow{Groups: []string{"staff"}} }, upstream.Attempt{},
			map[string]string{"scope": "openid profile email groups"}},
		"oidc with groups of resources": {upstream.OIDC, nil, upstream.Attempt{NeedGroups: true},
			map[string]string{"scope": "openid profile email groups"}},
		"github with groups of resources": {upstream.GitHub, nil, upstream.Attempt{NeedGroups: true},
			map[string]string{"scope": "user:email read:org", "nonce": ""}},
		"oidc with a domain": {upstream.OIDC, func(p *upstream.Provider) {
			p.Allow, p.Recheck = upstream.Allow{Domains: []string{"example.com"}}, time.Hour
		}, upstream.Attempt{},
			map[string]string{"hd": "", "access_type": "", "prompt": "consent"}},
		"gitlab with groups": {upstream.GitLab, func(p *upstream.Provider) { p.Allow = upstream.Allow{Groups: []string{"staff"}} }, upstream.Attempt{},
			map[string]string{"scope": "openid profile email"}},
		"keycloak with groups": {upstream.Keycloak, func(p *upstream.Provider) { p.Allow = upstream.Allow{Groups: []string{"staff"}} }, upstream.Attempt{},
			map[string]string{"scope": "openid profile email"}},
		"keycloak with recheck": {upstream.Keycloak, func(p *upstream.Provider) { p.Recheck, p.Scopes = time.Hour, []string{"roles", "email"} }, upstream.Attempt{},
			map[string]string{"scope": "openid profile email offline_access roles", "prompt": ""}},
		"google with recheck": {upstream.Google, func(p *upstream.Provider) { p.Recheck = time.Hour }, upstream.Attempt{ForceLogin: true},
			map[string]string{"access_type": "offline", "prompt": "select_account consent"}},
		"google with one domain": {upstream.Google, func(p *upstream.Provider) { p.Allow = upstream.Allow{Domains: []string{"example.com"}} }, upstream.Attempt{},
			map[string]string{"hd": "example.com", "access_type": "", "prompt": ""}},
		"entra": {upstream.Entra, func(p *upstream.Provider) { p.Recheck = time.Hour }, upstream.Attempt{},
			map[string]string{"scope": "openid profile email offline_access", "prompt": ""}},
		"github": {upstream.GitHub, func(p *upstream.Provider) { p.Allow = upstream.Allow{Organisations: []string{"example"}} }, upstream.Attempt{LoginHint: "ada"},
			map[string]string{"scope": "user:email read:org", "nonce": "", "login": "ada"}},
		"github, hint with a line break": {upstream.GitHub, nil, upstream.Attempt{LoginHint: "a\nb"},
			map[string]string{"scope": "user:email", "nonce": "", "login": ""}},
	} {
		t.Run(name, func(t *testing.T) {
			if test.change == nil {
				test.change = func(*upstream.Provider) {}
			}
			s := start(t, test.preset, test.change)
			s.fake.Change(func(a *upstreamtest.Answers) {
				a.Metadata = func(m map[string]any) { m["scopes_supported"] = []string{"openid", "offline_access", "groups"} }
			})
			attempt := upstream.NewAttempt("the state")
			attempt.LoginHint, attempt.MaxAge, attempt.ForceLogin, attempt.NeedGroups = test.ask.LoginHint, test.ask.MaxAge, test.ask.ForceLogin, test.ask.NeedGroups
			address, err := s.client.Begin(t.Context(), attempt)
			if err != nil {
				t.Fatal(err)
			}
			u, _ := url.Parse(address)
			got := u.Query()
			if got.Get("state") != "the state" || got.Get("redirect_uri") != redirect || got.Get("code_challenge_method") != "S256" ||
				len(got.Get("code_challenge")) != 43 || strings.Contains(address, attempt.Verifier) || got.Get("client_id") != upstreamtest.ClientID {
				t.Errorf("address %s", address)
			}
			if _, wanted := test.want["nonce"]; !wanted && got.Get("nonce") != attempt.Nonce {
				t.Error("the nonce is not in the address")
			}
			for parameter := range got {
				if got.Get(parameter) == "" {
					t.Errorf("%s is empty", parameter)
				}
			}
			for parameter, value := range test.want {
				if got.Get(parameter) != value {
					t.Errorf("%s is %q, want %q", parameter, got.Get(parameter), value)
				}
			}
		})
	}
}

// What the provider does not list is not asked for, but for Entra's, which has it anyway.
func TestBeginAsksForWhatIsListed(t *testing.T) {
	for preset, want := range map[string]struct{ scope, prompt string }{
		upstream.OIDC: {"openid profile email", ""}, upstream.Okta: {"openid profile email", ""}, upstream.Google: {"openid profile email", "consent"},
		upstream.Entra: {"openid profile email offline_access", ""},
	} {
		s := start(t, preset, rechecking)
		s.fake.Change(func(a *upstreamtest.Answers) {
			a.Metadata = func(m map[string]any) { m["scopes_supported"] = []string{"openid"} }
		})
		attempt := upstream.NewAttempt("state")
		attempt.NeedGroups = true
		address, err := s.client.Begin(t.Context(), attempt)
		if err != nil {
			t.Fatal(err)
		}
		if u, _ := url.Parse(address); u.Query().Get("scope") != want.scope || u.Query().Get("prompt") != want.prompt {
			t.Errorf("%s: %s", preset, address)
		}
	}
}

// An attempt without what binds it is neither begun nor finished.
func TestAttemptsThatBindNothing(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*upstream.Attempt)
		fine   bool
	}{
		"no state":       {func(a *upstream.Attempt) { a.State = "" }, false},
		"short nonce":    {func(a *upstream.Attempt) { a.Nonce = strings.Repeat("n", 15) }, false},
		"nonce":          {func(a *upstream.Attempt) { a.Nonce = strings.Repeat("n", 16) }, true},
		"short verifier": {func(a *upstream.Attempt) { a.Verifier = strings.Repeat("v", 42) }, false},
		"verifier":       {func(a *upstream.Attempt) { a.Verifier = strings.Repeat("v", 43) }, true},
		"long verifier":  {func(a *upstream.Attempt) { a.Verifier = strings.Repeat("v", 128) }, true},
		"longer":         {func(a *upstream.Attempt) { a.Verifier = strings.Repeat("v", 129) }, false},
	} {
		s, whole := start(t, upstream.OIDC), upstream.NewAttempt("state")
		changed := whole
		test.change(&changed)
		_, err := s.client.Begin(t.Context(), changed)
		if test.fine {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		refuses(t, err, upstream.ErrInvalid, upstream.ReasonCallback)
		address, err := s.client.Begin(t.Context(), whole)
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.client.Finish(t.Context(), changed, s.fake.Visit(t, address))
		refuses(t, err, upstream.ErrInvalid, upstream.ReasonCallback)
		if s.fake.Requests("/token") > 0 {
			t.Errorf("%s: the code was sent", name)
		}
	}
}

// A callback that is another provider's, or nobody's, is refused before its code is sent.
func TestCallbacks(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*upstream.Callback)
		kind   error
		reason upstream.Reason
		code   string
	}{
		"another issuer":          {func(b *upstream.Callback) { b.Issuer = "https://other.example.com" }, upstream.ErrInvalid, upstream.ReasonIssuer, ""},
		"issuer with a slash":     {func(b *upstream.Callback) { b.Issuer += "/" }, upstream.ErrInvalid, upstream.ReasonIssuer, ""},
		"promised issuer missing": {func(b *upstream.Callback) { b.Issuer = "" }, upstream.ErrInvalid, upstream.ReasonIssuer, ""},
		"error of another issuer": {func(b *upstream.Callback) {
			*b = upstream.Callback{Error: "access_denied", Issuer: "https://other.example.com"}
		}, upstream.ErrInvalid, upstream.ReasonIssuer, ""},
		"neither code nor error":   {func(b *upstream.Callback) { b.Code = "" }, upstream.ErrInvalid, upstream.ReasonCallback, ""},
		"a code with a line break": {func(b *upstream.Callback) { b.Code = "a\nb" }, upstream.ErrInvalid, upstream.ReasonCallback, ""},
		"a code with an accent":    {func(b *upstream.Callback) { b.Code = "é" }, upstream.ErrInvalid, upstream.ReasonCallback, ""},
		"a code with a tilde":      {func(b *upstream.Callback) { b.Code = "a b~" }, upstream.ErrInvalid, upstream.ReasonCode, "invalid_grant"},
		"the longest code":         {func(b *upstream.Callback) { b.Code = strings.Repeat("c", 8<<10) }, upstream.ErrInvalid, upstream.ReasonCode, "invalid_grant"},
		"server_error":             {func(b *upstream.Callback) { b.Error = "server_error" }, upstream.ErrUnavailable, upstream.ReasonDown, "server_error"},
		"a code that is too long":  {func(b *upstream.Callback) { b.Code = strings.Repeat("c", 8<<10+1) }, upstream.ErrInvalid, upstream.ReasonCallback, ""},
		"access_denied":            {func(b *upstream.Callback) { b.Error = "access_denied" }, upstream.ErrDenied, upstream.ReasonDenied, "access_denied"},
		"login_required":           {func(b *upstream.Callback) { b.Error = "login_required" }, upstream.ErrDenied, upstream.ReasonDenied, "login_required"},
		"temporarily_unavailable":  {func(b *upstream.Callback) { b.Error = "temporarily_unavailable" }, upstream.ErrUnavailable, upstream.ReasonDown, "temporarily_unavailable"},
		"invalid_scope":            {func(b *upstream.Callback) { b.Error = "invalid_scope" }, upstream.ErrMisconfigured, upstream.ReasonSettings, "invalid_scope"},
		"unauthorized_client":      {func(b *upstream.Callback) { b.Error = "unauthorized_client" }, upstream.ErrMisconfigured, upstream.ReasonClient, "unauthorized_client"},
		"an error that is markup":  {func(b *upstream.Callback) { b.Error = "<script>" }, upstream.ErrMisconfigured, upstream.ReasonSettings, ""},
		"a code that is not known": {func(b *upstream.Callback) { b.Code = "guessed" }, upstream.ErrInvalid, upstream.ReasonCode, "invalid_grant"},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, upstream.OIDC)
			attempt := upstream.NewAttempt("state")
			address, err := s.client.Begin(t.Context(), attempt)
			if err != nil {
				t.Fatal(err)
			}
			back := s.fake.Visit(t, address)
			test.change(&back)
			_, err = s.client.Finish(t.Context(), attempt, back)
			refuses(t, err, test.kind, test.reason)
			if e := err.(*upstream.Error); e.Code != test.code {
				t.Errorf("code %q, want %q", e.Code, test.code)
			}
			if sent := s.fake.Requests("/token"); (sent > 0) != (test.reason == upstream.ReasonCode) {
				t.Errorf("%d requests to the token endpoint", sent)
			}
		})
	}
}

// A code counts once, and only with the verifier of its own sign-in.
func TestCodes(t *testing.T) {
	s := start(t, upstream.OIDC)
	attempt, other := upstream.NewAttempt("state"), upstream.NewAttempt("other")
	address, err := s.client.Begin(t.Context(), attempt)
	if err != nil {
		t.Fatal(err)
	}
	back := s.fake.Visit(t, address)
	if _, err := s.client.Finish(t.Context(), attempt, back); err != nil {
		t.Fatal(err)
	}
	_, err = s.client.Finish(t.Context(), attempt, back)
	refuses(t, err, upstream.ErrInvalid, upstream.ReasonCode)
	back = s.fake.Visit(t, address)
	_, err = s.client.Finish(t.Context(), other, back)
	refuses(t, err, upstream.ErrInvalid, upstream.ReasonCode)
	if strings.Contains(err.Error(), back.Code) {
		t.Error("the error has the code")
	}
}

// A provider that plays another one (mix-up) gets nowhere: its answer names itself, and where it
// does not, its ID token does.
func TestMixUp(t *testing.T) {
	honest, evil := start(t, upstream.OIDC), start(t, upstream.OIDC)
	for _, promised := range []bool{true, false} {
		honest.fake.Change(func(a *upstreamtest.Answers) {
			a.Metadata = func(m map[string]any) { m["authorization_response_iss_parameter_supported"] = promised }
		})
		attempt := upstream.NewAttempt("state")
		address, err := honest.client.Begin(t.Context(), attempt)
		if err != nil {
			t.Fatal(err)
		}
		// The evil provider sends the browser to the honest one, and gets the callback of its own sign-in.
		back := honest.fake.Visit(t, address)
		_, err = evil.client.Finish(t.Context(), attempt, back)
		refuses(t, err, upstream.ErrInvalid, upstream.ReasonIssuer)
		if evil.fake.Requests("/token") > 0 {
			t.Error("the honest provider's code was sent to the evil one")
		}
	}
	// The evil provider hands out an ID token of the honest one.
	var stolen string
	honest.fake.Change(func(a *upstreamtest.Answers) { a.Raw = func(signed string) string { stolen = signed; return signed } })
	attempt := upstream.NewAttempt("state")
	if _, err := honest.finish(attempt); err != nil {
		t.Fatal(err)
	}
	evil.client.Hurry()
	evil.fake.Change(func(a *upstreamtest.Answers) { a.Raw = func(string) string { return stolen } })
	_, err := evil.finish(attempt)
	refuses(t, err, upstream.ErrInvalid, upstream.ReasonToken)
	// It even publishes the honest one's keys as its own.
	set := publishedKey(t, honest.fake)
	evil = start(t, upstream.OIDC)
	evil.fake.Change(func(a *upstreamtest.Answers) {
		a.Raw = func(string) string { return stolen }
		a.First = func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != "/jwks" {
				return false
			}
			writeJSON(w, map[string]any{"keys": []any{set}})
			return true
		}
	})
	_, err = evil.finish(attempt)
	refuses(t, err, upstream.ErrInvalid, upstream.ReasonIssuer)
}
