package main

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"gatehouse.example/gateway"
	"gatehouse.example/middleware"
)

// Each key of a resource in the file reaches the configuration of its gateway.
func TestGatewayResourceKeysReachTheGateway(t *testing.T) {
	plan, _, err := planned(t, leastResource+`
    resource-name: Notes
    audiences: [notes, other]
    allowed-origins: [https://inspector.example.org]
    authorization-servers: [https://auth.example.com]
    pass-headers: [X-Team-Report]
    insecure-trust-mcp-headers: true
    max-body: 1234
  - resource: https://files.example.com/mcp
    upstream: http://127.0.0.1:9001
    identity: assertion
    assertion-binding: request
    end-streams: false
    max-body: 1
    issuers:
      - url: https://one.example.com
        type: JWT
        client-claim: cid
        scope-claim: scp
        scope-map:
          - claim: [realm, roles]
            value: editor
            scopes: [notes:read]
        leeway: 5s
        max-stale: 2h
        algorithms: [ES256, RS256]
        keys-url: https://one.example.com/keys
      - url: https://two.example.com
        audiences: two
        introspection: {endpoint: https://two.example.com/ask, client-id: files, client-secret: hunter22, opaque: true, fresh: 3s}
      - url: https://three.example.com
        max-stale: 0
        introspection: {client-secret: hunter23}
`, func(s *gatewaySettings) { s.EndStreams = true })
	if err != nil {
		t.Fatal(err)
	}
	first, second := plan.configs[0], plan.configs[1]
	type pair struct{ got, want any }
	for name, p := range map[string]pair{
		"resource-name":         {first.Guard.ResourceName, "Notes"},
		"audiences":             {first.Guard.Audiences, []string{"notes", "other"}},
		"allowed-origins":       {first.Guard.AllowedOrigins, []string{"https://inspector.example.org"}},
		"authorization-servers": {first.Guard.AuthorizationServers, []string{"https://auth.example.com"}},
		"pass-headers":          {first.PassHeaders, []string{"X-Team-Report"}},
		"trust":                 {[2]bool{first.InsecureTrustMCPHeaders, second.InsecureTrustMCPHeaders}, [2]bool{true, false}},
		"max-body":              {[2]int{first.Guard.MaxBody, second.Guard.MaxBody}, [2]int{1234, 1}},
		"end-streams":           {[2]bool{first.Guard.EndStreams, second.Guard.EndStreams}, [2]bool{true, false}},
		"identity":              {[2]gateway.Identity{first.Identity, second.Identity}, [2]gateway.Identity{gateway.IdentityHeaders, gateway.IdentityAssertion}},
		"assertion-binding":     {second.AssertionBinding, gateway.BoundToRequest},
		"assertion keys":        {[2]bool{first.AssertionKeys != nil, second.AssertionKeys != nil}, [2]bool{false, true}},
		"sessions":              {first.Guard.Sessions != nil && second.Guard.Sessions != nil, true},
		"issuers": {second.Guard.Issuers, []middleware.Issuer{{
			URL: "https://one.example.com", Type: "JWT", ClientClaim: "cid", ScopeClaim: "scp", Leeway: 5 * time.Second, MaxStale: 2 * time.Hour,
			ScopeMap:   []middleware.ScopeRule{{Claim: []string{"realm", "roles"}, Value: "editor", Scopes: []string{"notes:read"}}},
			Algorithms: []string{"ES256", "RS256"}, Keys: middleware.KeysAt("https://one.example.com/keys"),
		}, {URL: "https://two.example.com", Audiences: []string{"two"}}, {URL: "https://three.example.com", MaxStale: -1}}},
		"introspection": {second.Guard.Introspection, map[string]middleware.Introspection{
			"https://two.example.com":   {Endpoint: "https://two.example.com/ask", ClientID: "files", ClientSecret: "hunter22", Opaque: true, Fresh: 3 * time.Second},
			"https://three.example.com": {ClientID: "https://files.example.com/mcp", ClientSecret: "hunter23"},
		}},
	} {
		if !reflect.DeepEqual(p.got, p.want) {
			t.Errorf("%s: %+v, want %+v", name, p.got, p.want)
		}
	}
}

// A tenant may be one of several for one resource, and the only issuer of another.
func TestGatewayResourcesShareTenants(t *testing.T) {
	const tenant, another = "11111111-2222-3333-4444-555555555555", "22222222-2222-3333-4444-555555555555"
	entry := func(name, issuer, more string) string {
		return "  - resource: https://" + name + ".example.com/mcp\n    upstream: http://127.0.0.1:9\n    issuers:\n      - url: https://login.microsoftonline.com/" + issuer +
			"/v2.0\n        profile: entra\n        audiences: " + name + "\n" + more
	}
	const announced = "    authorization-servers: [https://login.microsoftonline.com/" + another + "/v2.0]\n"
	several := "        tenants: [" + tenant + ", " + another + "]\n" + announced
	for _, text := range []string{
		entry("a", "{tenantid}", several) + entry("b", "{tenantid}", several),
		entry("a", "{tenantid}", several) + entry("b", tenant, "") + entry("c", "{tenantid}", several),
		entry("b", tenant, "") + entry("a", "{tenantid}", several) + entry("c", tenant, ""),
		entry("a", "{tenantid}", several) + entry("b", "{tenantid}", "        tenants: ["+another+"]\n"+announced),
	} {
		if _, _, err := planned(t, "resources:\n"+text); err != nil {
			t.Errorf("%s\n%v", text, err)
		}
	}
}

// Mistakes in the settings of all resources are reported beside those of the list.
func TestGatewayResourcesSharedMistakes(t *testing.T) {
	for want, change := range map[string]func(*gatewaySettings){
		"max-body 0 is not a size": func(s *gatewaySettings) { s.MaxBody = 0 },
		"stale-keys":               func(s *gatewaySettings) { s.StaleKeys = -1 },
		"tls-key":                  func(s *gatewaySettings) { s.TLSCert = "cert.pem" },
	} {
		if _, _, err := planned(t, leastResource, change); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
