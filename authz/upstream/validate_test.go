package upstream_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"gatehouse.example/authz/upstream"
)

// Each mistake is a sentence that begins with the key at fault.
func TestValidate(t *testing.T) {
	type allow = upstream.Allow
	anybody := allow{Anybody: true}
	for name, test := range map[string]struct {
		p    upstream.Provider // with a client and, where there is none, an ID
		want string            // how the mistake begins; empty: fine
	}{
		"oidc":                    {upstream.Provider{Issuer: "https://login.example.com", Allow: anybody}, ""},
		"no issuer":               {upstream.Provider{Allow: anybody}, "issuer: write the provider's issuer"},
		"issuer over http":        {upstream.Provider{Issuer: "http://login.example.com", Allow: anybody}, "issuer: the address must begin with https://"},
		"issuer on loopback":      {upstream.Provider{Issuer: "http://127.0.0.1:1", Allow: anybody}, "issuer: the address must begin with https://"},
		"issuer with a query":     {upstream.Provider{Issuer: "https://login.example.com/?a", Allow: anybody}, "issuer: an issuer has no query"},
		"issuer with a fragment":  {upstream.Provider{Issuer: "https://login.example.com/#", Allow: anybody}, "issuer: the address must have no user and no fragment"},
		"issuer is a name":        {upstream.Provider{Issuer: "login.example.com", Allow: anybody}, "issuer: write an absolute https address"},
		"preset":                  {upstream.Provider{Preset: "goggle", Allow: anybody}, `preset: there is no "goggle"; write one of google, entra`},
		"id":                      {upstream.Provider{ID: "Company", Preset: "google", Allow: anybody}, "id: write 1 to 32"},
		"id with a slash":         {upstream.Provider{ID: "a/b", Preset: "google", Allow: anybody}, "id: write 1 to 32"},
		"id ends with a hyphen":   {upstream.Provider{ID: "a-", Preset: "google", Allow: anybody}, "id: write 1 to 32"},
		"nobody":                  {upstream.Provider{Preset: "google"}, "allow: say who may come in, or anybody: true"},
		"anybody and some":        {upstream.Provider{Preset: "google", Allow: allow{Anybody: true, Domains: []string{"example.com"}}}, "allow.anybody: true stands alone"},
		"groups at Google":        {upstream.Provider{Preset: "google", Allow: allow{Groups: []string{"staff"}}}, "allow.groups: Google names no groups"},
		"claims at Google":        {upstream.Provider{Preset: "google", Allow: anybody}, ""},
		"logins at Google":        {upstream.Provider{Preset: "google", Allow: allow{People: []string{"ada"}}}, "allow.people: Google proves e-mail addresses only"},
		"another Google":          {upstream.Provider{Preset: "google", Issuer: "https://example.com", Allow: anybody}, "issuer: Google has one issuer only"},
		"domains at GitHub":       {upstream.Provider{Preset: "github", Allow: allow{Domains: []string{"example.com"}}}, "allow.domains: GitHub proves no domain"},
		"organisations at GitHub": {upstream.Provider{Preset: "github", Allow: allow{Organisations: []string{"example"}, Groups: []string{"example/admins"}, People: []string{"ada", "ada@example.com"}}}, ""},
		"bare team at GitHub":     {upstream.Provider{Preset: "github", Allow: allow{Groups: []string{"admins"}}}, "allow.groups: write ORGANISATION/TEAM"},
		"GitHub with a path":      {upstream.Provider{Preset: "github", Issuer: "https://github.example.com/api/v3", Allow: anybody}, "issuer: write the address of GitHub without a path"},
		"organisations elsewhere": {upstream.Provider{Preset: "gitlab", Allow: allow{Organisations: []string{"example"}}}, "allow.organisations: only GitHub"},
		"domains at Entra":        {upstream.Provider{Preset: "entra", Allow: allow{Domains: []string{"example.com"}}}, "allow.domains: write the tenant ID"},
		"tenants":                 {upstream.Provider{Preset: "entra", Allow: allow{Domains: []string{otherTenant, strings.ToUpper("aaaaaaaa-2222-3333-4444-555555555555")}}}, ""},
		"e-mail at Entra":         {upstream.Provider{Preset: "entra", Allow: allow{Domains: []string{otherTenant}, People: []string{"ada@example.com"}}}, "allow.people: Microsoft proves no e-mail addresses: write object IDs"},
		"groups of any tenant":    {upstream.Provider{Preset: "entra", Allow: allow{Groups: []string{"staff"}}}, "allow.domains: name the tenants too"},
		"groups of one tenant":    {upstream.Provider{Preset: "entra", Issuer: "https://login.microsoftonline.com/" + otherTenant + "/v2.0", Allow: allow{Groups: []string{"staff"}}}, ""},
		"Entra by a domain":       {upstream.Provider{Preset: "entra", Issuer: "https://login.microsoftonline.com/example.com/v2.0", Allow: anybody}, "issuer: write https://login.microsoftonline.com/TENANT/v2.0"},
		"domain with an @":        {upstream.Provider{Preset: "gitlab", Allow: allow{Domains: []string{"@example.com"}}}, "allow.domains: write a domain such as example.com"},
		"domain with a star":      {upstream.Provider{Preset: "gitlab", Allow: allow{Domains: []string{"*.example.com"}}}, "allow.domains: write a domain such as example.com"},
		"empty group":             {upstream.Provider{Preset: "gitlab", Allow: allow{Groups: []string{""}}}, "allow.groups: write a name"},
		"half an address":         {upstream.Provider{Preset: "gitlab", Allow: allow{People: []string{"@example.com"}}}, "allow.people: write a whole e-mail address"},
		"empty person":            {upstream.Provider{Preset: "gitlab", Allow: allow{People: []string{""}}}, "allow.people: write 1 to 255 bytes"},
		"recheck too often":       {upstream.Provider{Preset: "gitlab", Allow: anybody, Recheck: time.Second}, "recheck: write at least 1m0s"},
		"recheck below zero":      {upstream.Provider{Preset: "gitlab", Allow: anybody, Recheck: -time.Hour}, "recheck: write at least"},
		"scope with a space":      {upstream.Provider{Preset: "gitlab", Allow: anybody, Scopes: []string{"a b"}}, `scopes: "a b" is no scope`},
		"claims at GitHub":        {upstream.Provider{Preset: "github", Allow: anybody, Claims: upstream.Claims{Groups: "g"}}, "claims.groups: GitHub has no such claim"},
		"key at Google":           {upstream.Provider{Preset: "google", Allow: anybody, ClientSecret: "-", ClientKey: &upstream.ClientKey{}}, "client_key: Google takes no signed assertion"},
		"empty key":               {upstream.Provider{Preset: "okta", Issuer: "https://example.okta.com", Allow: anybody, ClientSecret: "-", ClientKey: &upstream.ClientKey{}}, "client_key: it has no private key"},
		"name with a line break":  {upstream.Provider{Preset: "gitlab", Name: "a\nb", Allow: anybody}, "name: write at most 64 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			p := test.p
			p.ClientID = "gatehouse"
			if p.ID == "" {
				p.ID = "company"
			}
			p.ClientSecret = strings.Trim(p.ClientSecret+"secret", "-")
			if p.ClientKey != nil {
				p.ClientSecret = ""
			}
			err := p.Validate(false)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.HasPrefix(err.Error(), test.want)) {
				t.Errorf("%v, want %q", err, test.want)
			}
			if _, newErr := upstream.New(p, upstream.Options{Redirect: redirect}); (newErr == nil) != (err == nil) {
				t.Errorf("New says %v, Validate %v", newErr, err)
			}
		})
	}
}

// All mistakes are named together, and with dev loopback may be http.
func TestValidateAll(t *testing.T) {
	err := upstream.Provider{Issuer: "http://127.0.0.1:1", Recheck: time.Second}.Validate(true)
	for _, key := range []string{"id: ", "client_id: ", "client_secret: ", "allow: "} {
		if err == nil || !strings.Contains("\n"+err.Error(), "\n"+key) {
			t.Errorf("no %sin %v", key, err)
		}
	}
	if strings.Contains(err.Error(), "issuer: ") || strings.Contains(err.Error(), "recheck: ") {
		t.Error(err)
	}
	for _, host := range []string{"192.0.2.1", "localhost.example.com", "example.com"} {
		if err := (upstream.Provider{Issuer: "http://" + host}).Validate(true); !strings.Contains(err.Error(), "issuer: the address must begin with https://") {
			t.Errorf("http at %s: %v", host, err)
		}
	}
}

// A label of a domain has 63 characters at most (RFC 1035 section 2.3.4).
func TestLongDomains(t *testing.T) {
	for length, want := range map[int]bool{63: true, 64: false} {
		p := upstream.Provider{ID: "company", Preset: upstream.GitLab, ClientID: "c", ClientSecret: "s", Allow: upstream.Allow{Domains: []string{strings.Repeat("a", length) + ".example.com"}}}
		if err := p.Validate(false); (err == nil) != want {
			t.Errorf("a label of %d characters: %v", length, err)
		}
	}
}

// Every preset but that of Google names groups, and Google does where a claim is set. Each reason is
// listed, once.
func TestGroupsAndReasons(t *testing.T) {
	for preset, want := range map[string]bool{"": true, upstream.OIDC: true, upstream.Google: false, upstream.Entra: true, upstream.GitHub: true} {
		if got := (upstream.Provider{Preset: preset}).NamesGroups(); got != want {
			t.Errorf("%q names groups: %t", preset, got)
		}
	}
	if !(upstream.Provider{Preset: upstream.Google, Claims: upstream.Claims{Groups: "groups"}}).NamesGroups() {
		t.Error("Google with a claim names no groups")
	}
	if all := upstream.Reasons(); !slices.Contains(all, upstream.ReasonGone) || !slices.Contains(all, upstream.ReasonToken) || len(slices.Compact(slices.Clone(all))) != len(all) || !slices.IsSorted(all) {
		t.Errorf("the reasons are %q", all)
	}
}

// A client without a redirect URI is no client.
func TestNoRedirect(t *testing.T) {
	p := upstream.Provider{ID: "company", Preset: upstream.GitLab, ClientID: "c", ClientSecret: "s", Allow: upstream.Allow{Anybody: true}}
	if _, err := upstream.New(p, upstream.Options{}); err == nil {
		t.Error("a client without a redirect URI")
	}
}

// Defaults of the presets: the public services, and at Entra the tenant that allow names.
func TestDefaults(t *testing.T) {
	for preset, issuer := range map[string]string{
		upstream.Google: "https://accounts.google.com", upstream.GitHub: "https://github.com", upstream.GitLab: "https://gitlab.com",
		upstream.Entra: "https://login.microsoftonline.com/organizations/v2.0",
	} {
		c, err := upstream.New(upstream.Provider{ID: "company", Preset: preset, ClientID: "c", ClientSecret: "s", Allow: upstream.Allow{Anybody: true}}, upstream.Options{Redirect: redirect})
		if err != nil {
			t.Fatal(err)
		}
		if p := c.Provider(); p.Issuer != issuer || p.ClientSecret != "" || p.Name == "" {
			t.Errorf("%+v", p)
		}
	}
	c, err := upstream.New(upstream.Provider{ID: "company", Preset: upstream.Entra, ClientID: "c", ClientSecret: "s", Allow: upstream.Allow{Domains: []string{otherTenant}}}, upstream.Options{Redirect: redirect})
	if err != nil || c.Provider().Issuer != "https://login.microsoftonline.com/"+otherTenant+"/v2.0" {
		t.Errorf("%+v, %v", c, err)
	}
	for _, reason := range upstream.Reasons() {
		e := &upstream.Error{Title: "Example", Reason: reason}
		if !strings.Contains(e.Sentence(), "Example") || strings.Contains(e.Sentence(), "%") {
			t.Errorf("%s: %q", reason, e.Sentence())
		}
	}
}
