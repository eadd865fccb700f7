package gateway_test

import (
	"net/http"
	"testing"

	"gatehouse.example/gateway"
	"gatehouse.example/middleware"
)

// TestRoutesOfAnUpstream: in front of an upstream that is no server of the protocol, a policy by
// method and path applies to the path of the resource, and the upstream gets what was judged.
// A check for another proxy sees no path, so it needs the scopes of all routes.
func TestRoutesOfAnUpstream(t *testing.T) {
	u := newUpstream(t)
	g := newGate(t, u.URL, func(c *gateway.Config) {
		c.Guard.Policy = middleware.Policy{Routes: map[string][]string{
			"GET /mcp/notes/{id}":    {"notes:read"},
			"DELETE /mcp/notes/{id}": {"notes:write"},
		}}
	})
	for _, tt := range []struct {
		method, path string
		status       int
		upstream     string
	}{
		{"GET", "/mcp/notes/7", 200, "/notes/7"},
		{"GET", "/mcp/notes/a%40b", 200, "/notes/a%40b"},
		{"DELETE", "/mcp/notes/7", 403, ""},
		{"GET", "/mcp/other", 403, ""},
		{"GET", "/mcp/notes/..%2Fother", 400, ""},
		{"GET", "/mcp/notes/%37", 400, ""},
	} {
		a := do(t, g.request(t, tt.method, tt.path, ""))
		taken := u.taken()
		if a.status != tt.status || (len(taken) == 1) != (tt.upstream != "") {
			t.Errorf("%s %s: %d, %v", tt.method, tt.path, a.status, taken)
		} else if len(taken) == 1 && taken[0].uri != tt.upstream {
			t.Errorf("%s %s: the upstream got %s", tt.method, tt.path, taken[0].uri)
		}
	}
	for scope, want := range map[string]int{"notes:read": http.StatusForbidden, "notes:read notes:write": http.StatusOK} {
		r := g.request(t, "GET", gateway.PathVerify, "", "Authorization", "Bearer "+g.token(t, claims{"scope": scope}))
		if a := do(t, r); a.status != want {
			t.Errorf("a check with %s: %d, want %d", scope, a.status, want)
		}
	}
}
