package gateway_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"gatehouse.example/gateway"
	"gatehouse.example/middleware"
)

// TestFailuresOfTheUpstreamHaveTheID checks that where the gateway has read the request, its
// error in place of a failed upstream has the id of that request.
func TestFailuresOfTheUpstreamHaveTheID(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Header.Get("X-Fails") {
		case "credentials":
			w.WriteHeader(http.StatusUnauthorized)
		case "elsewhere":
			http.Redirect(w, r, "https://elsewhere.example.com/", http.StatusFound)
		default:
			panic(http.ErrAbortHandler)
		}
	}))
	t.Cleanup(upstream.Close)
	reads := newGate(t, upstream.URL, func(c *gateway.Config) {
		c.Guard.Policy = middleware.Policy{Tools: map[string][]string{"*": nil}, Methods: map[string][]string{"*": nil}}
	})
	blind := newGate(t, upstream.URL)
	for _, how := range []string{"credentials", "elsewhere", "silent"} {
		for _, tt := range []struct {
			gate             *gate
			method, body, id string
		}{
			{reads, "POST", `{"jsonrpc":"2.0","id":17,"method":"tools/call","params":{"name":"x","arguments":{"id":5}}}`, `17`},
			{reads, "POST", `{"jsonrpc":"2.0","id":"17","method":"tools/list"}`, `"17"`},
			{reads, "POST", `{"jsonrpc":"2.0","method":"notifications/x","params":{"id":5}}`, ""},
			{reads, "POST", `{"jsonrpc":"2.0","id":17,"result":{}}`, ""},
			{reads, "GET", "", ""},
			{blind, "POST", `{"jsonrpc":"2.0","id":17,"method":"tools/list"}`, ""},
		} {
			a := do(t, tt.gate.request(t, tt.method, "/mcp", tt.body, "X-Fails", how))
			want := `{"jsonrpc":"2.0","id":` + tt.id + `,"error":{"code":-32603,"message":"The server behind the gateway `
			if tt.id == "" {
				want = `{"error_description":"The server behind the gateway `
			}
			if a.status != http.StatusBadGateway || !strings.HasPrefix(a.body, want) || a.header.Get("Content-Type") != "application/json" {
				t.Errorf("%s: %s: %d %s", how, tt.body, a.status, a.body)
			}
		}
	}
}
