package main

import (
	"reflect"
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
		}, {URL: "https://two.example.com", Audiences: []string{"two"}}, {URL: "https://three.example.com"}}},
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
