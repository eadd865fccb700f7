package gateway_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"gatehouse.example/gateway"
	"gatehouse.example/middleware"
)

// TestQuestionsCountForTheWholeGateway: whoever makes up tokens gets no further question to a provider
// that counts them at /verify, in either of its ways, or after a reload.
func TestQuestionsCountForTheWholeGateway(t *testing.T) {
	var questions atomic.Int32
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		questions.Add(1)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound) // GitHub knows no such token
	}))
	defer provider.Close()
	const app = "Iv1.8a61f9b3a7aba766"
	counted := func(c *gateway.Config) {
		c.Guard.AuthorizationServers = nil
		c.Guard.Issuers = []middleware.Issuer{{URL: provider.URL, Profile: middleware.GitHub, Audiences: []string{app}, InsecureNoAudience: true}}
		c.Guard.Introspection = map[string]middleware.Introspection{
			provider.URL: {Endpoint: provider.URL, Opaque: true, ClientID: app, ClientSecret: "secret of the app", PerHour: 4}, // one for others
		}
		c.Guard.Policy.Tools, c.InsecureTrustMCPHeaders = map[string][]string{"list_notes": {"notes:read"}}, true
	}
	upstream := newUpstream(t)
	first := newGate(t, upstream.URL, counted)
	next := newGate(t, upstream.URL, counted, func(c *gateway.Config) { c.Before, c.Guard.ResourceName = first.Gateway, "Another name" })
	other := newGate(t, upstream.URL, counted, func(c *gateway.Config) { c.Before, c.Guard.Resource = first.Gateway, "http://127.0.0.1:9000/other" })
	sent := 0
	ask := func(g *gate, path string, header map[string]string) int {
		r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1:9000"+path, nil)
		r.Header.Set("Authorization", fmt.Sprintf("Bearer ghu_%036d", sent))
		sent++
		for name, value := range header {
			r.Header.Set(name, value)
		}
		w := httptest.NewRecorder()
		g.ServeHTTP(w, r)
		return w.Code
	}
	told := map[string]string{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "list_notes"}
	if got := ask(first, "/verify", told); got != http.StatusUnauthorized {
		t.Fatalf("the first token: %d", got)
	}
	for name, g := range map[string]*gate{"the gateway": first, "the next one": next} {
		for at, header := range map[string]map[string]string{"/mcp": nil, "/verify": nil, "/verify?told": told} {
			if got := ask(g, at, header); got != http.StatusServiceUnavailable {
				t.Errorf("%s at %s: %d", name, at, got)
			}
		}
	}
	if n := questions.Load(); n != 1 {
		t.Errorf("%d questions", n)
	}
	if got := ask(other, "/other", nil); got != http.StatusUnauthorized {
		t.Errorf("the gateway of another resource: %d", got)
	}
}
