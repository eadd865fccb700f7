package dcr_test

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"gatehouse.example/dcr"
	"gatehouse.example/storage"
)

func TestPolicy(t *testing.T) {
	const cursor, other = "cursor://anysphere.cursor-mcp/oauth/callback", "com.example.app:/cb"
	hosts := dcr.Policy{RedirectHosts: []string{"client.example.com", "*.example.org"}}
	tests := []struct {
		name   string
		policy dcr.Policy
		uri    string
		ok     bool
	}{
		{"zero value allows a private-use scheme", dcr.Policy{}, cursor, true},
		{"zero value allows a reverse-domain scheme", dcr.Policy{}, other, true},
		{"zero value refuses javascript", dcr.Policy{}, "javascript:alert(1)", false},
		{"refused", dcr.Policy{RefusePrivateUse: true}, cursor, false},
		{"refused although listed", dcr.Policy{RefusePrivateUse: true, PrivateUseSchemes: []string{"cursor"}}, cursor, false},
		{"https is not private-use", dcr.Policy{RefusePrivateUse: true}, "https://client.example.com/cb", true},
		{"loopback is not private-use", dcr.Policy{RefusePrivateUse: true, PrivateUseSchemes: []string{"cursor"}}, "http://localhost:1/cb", true},
		{"listed", dcr.Policy{PrivateUseSchemes: []string{"vscode", "cursor"}}, cursor, true},
		{"not listed", dcr.Policy{PrivateUseSchemes: []string{"vscode"}}, cursor, false},
		{"listed by a longer name", dcr.Policy{PrivateUseSchemes: []string{"cursors"}}, cursor, false},
		{"zero value allows any host", dcr.Policy{}, "https://client.example.com/cb", true},
		{"loopback refused", dcr.Policy{RefuseLoopback: true}, "http://127.0.0.1:1/cb", false},
		{"loopback by name refused", dcr.Policy{RefuseLoopback: true}, "http://localhost/cb", false},
		{"loopback refused, not https", dcr.Policy{RefuseLoopback: true}, "https://localhost/cb", true},
		{"loopback refused, not private-use", dcr.Policy{RefuseLoopback: true}, cursor, true},
		{"listed host", hosts, "https://client.example.com/cb", true},
		{"listed host with a port", hosts, "https://client.example.com:8443/cb", true},
		{"listed host in capitals", hosts, "https://Client.Example.com/cb", false},
		{"host below a listed one", hosts, "https://a.client.example.com/cb", false},
		{"host that ends like a listed one", hosts, "https://evilclient.example.com/cb", false},
		{"host that begins like a listed one", hosts, "https://client.example.com.evil.example/cb", false},
		{"host with a dot at the end", hosts, "https://client.example.com./cb", false},
		{"host below a wildcard", hosts, "https://a.example.org/cb", true},
		{"host far below a wildcard", hosts, "https://a.b.example.org/cb", true},
		{"host of a wildcard itself", hosts, "https://example.org/cb", false},
		{"host that ends like a wildcard", hosts, "https://evilexample.org/cb", false},
		{"hosts do not concern loopback", hosts, "http://127.0.0.1/cb", true},
		{"hosts do not concern private-use schemes", hosts, cursor, true},
		{"a listed scheme cannot be a dangerous one", dcr.Policy{PrivateUseSchemes: []string{"javascript"}}, "javascript:alert(1)", false},
	}
	f := newFixture(t, nil)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			clients, err := dcr.New(dcr.Config{Store: f.store, Endpoint: registerURL, Policy: tt.policy, Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			f := &fixture{Clients: clients, backend: f.backend}
			f.backend.writes.Store(0)
			a := f.post(t, `{"redirect_uris":["`+tt.uri+`"]}`)
			if tt.ok {
				if a.status != http.StatusCreated || a.list("redirect_uris") != tt.uri {
					t.Errorf("status %d: %s", a.status, a.raw)
				}
				return
			}
			assertRefused(t, f, a, http.StatusBadRequest, "invalid_redirect_uri")
		})
	}
}

// TestPolicyScopesAndGrants: forbidden scopes and grants are refused by name, unknown ones are
// left out, and defaults respect the policy.
func TestPolicyScopesAndGrants(t *testing.T) {
	tests := []struct{ name, members, refused, scope, grants string }{
		{"allowed", `"scope":"notes:read offline_access","grant_types":["authorization_code"]`, "", "notes:read offline_access", "authorization_code"},
		{"scope", `"scope":"notes:read notes:write"`, "scope: 'notes:write' cannot be registered here", "", ""},
		{"scope that does not exist", `"scope":"notes:read bank:write"`, "", "notes:read", "authorization_code"},
		{"grant", `"grant_types":["authorization_code","refresh_token"]`, "grant_types: refresh_token is not allowed here; allowed are authorization_code", "", ""},
		{"grant that does not exist", `"grant_types":["authorization_code","device"]`, "", "", "authorization_code"},
		{"default grants", `"scope":"offline_access"`, "", "offline_access", "authorization_code"},
	}
	f := newFixture(t, func(c *dcr.Config) {
		c.Policy = dcr.Policy{Scopes: []string{"notes:read"}, GrantTypes: []string{"authorization_code"}}
	})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f.backend.writes.Store(0)
			a := f.post(t, with(tt.members))
			if tt.refused == "" {
				if a.status != http.StatusCreated || a.text("scope") != tt.scope || a.list("grant_types") != tt.grants {
					t.Errorf("status %d: %s", a.status, a.raw)
				}
				return
			}
			assertRefused(t, f, a, http.StatusBadRequest, "invalid_client_metadata")
			if !strings.HasPrefix(a.text("error_description"), tt.refused) {
				t.Errorf("it says %q, not %q", a.text("error_description"), tt.refused)
			}
		})
	}
}

// TestMayAskFor: the policy binds clients that the operator does not vouch for, whatever they
// registered.
func TestMayAskFor(t *testing.T) {
	registered, configured := storage.Client{Source: storage.ClientRegistered}, storage.Client{Source: storage.ClientConfigured}
	tests := []struct {
		scopes []string
		client storage.Client
		scope  string
		may    bool
	}{
		{nil, registered, "notes:write", true},
		{[]string{"notes:read"}, registered, "notes:read", true},
		{[]string{"notes:read"}, registered, "offline_access", true},
		{[]string{"notes:read"}, registered, "notes:write", false},
		{[]string{"notes:read"}, configured, "notes:write", true},
		{[]string{"notes:read"}, storage.Client{}, "notes:write", false},
	}
	for _, tt := range tests {
		f := newFixture(t, func(c *dcr.Config) { c.Policy.Scopes = tt.scopes })
		if may := f.MayAskFor(tt.client, tt.scope); may != tt.may {
			t.Errorf("%s client, %s of %q: %t", tt.client.Source, tt.scope, tt.scopes, may)
		}
	}
}
