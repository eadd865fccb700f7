package gateway_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"gatehouse.example/gateway"
	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// newNext makes a gateway that takes the place of another one, with the same issuer.
func newNext(t *testing.T, before *gate, upstream string, change ...func(*gateway.Config)) *gate {
	t.Helper()
	next := newGate(t, upstream, append(change, func(c *gateway.Config) {
		c.Guard.AuthorizationServers, c.Before = []string{before.issuer.URL()}, before.Gateway
	})...)
	next.issuer = before.issuer
	return next
}

// TestProofsStayUsedAfterAReload: a gateway that takes the place of another one knows the proofs that
// were used there, at the resource and at /verify, however often it is replaced, and also if one between
// them accepts no proofs.
func TestProofsStayUsedAfterAReload(t *testing.T) {
	upstream := newUpstream(t)
	first := newGate(t, upstream.URL, proving(middleware.DPoPAccepted, true))
	second := newNext(t, first, upstream.URL, proving(middleware.DPoPRequired, true))
	third := newNext(t, newNext(t, second, upstream.URL, proving(middleware.DPoPOff, true)), upstream.URL, proving(middleware.DPoPAccepted, true))
	key := middlewaretest.NewProofKey(t, jose.ES256)
	token := first.issuer.Mint(middlewaretest.Claims{"aud": resource, "cnf": key.Confirmation()})
	status := func(g *gate, path, proof string) int {
		r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1:9000"+path, nil)
		r.RemoteAddr = trustedProxy
		for name, value := range map[string]string{"Authorization": "DPoP " + token, "DPoP": proof, "X-Forwarded-Method": "POST", "X-Forwarded-Uri": "/mcp"} {
			r.Header.Set(name, value)
		}
		w := httptest.NewRecorder()
		g.ServeHTTP(w, r)
		return w.Code
	}
	for _, path := range []string{"/mcp", "/verify"} {
		proof := key.Prove("POST", resource, token, nil)
		if got := status(first, path, proof); got != http.StatusOK {
			t.Fatalf("%s: %d", path, got)
		}
		for name, g := range map[string]*gate{"the next gateway": second, "the one after that": third} {
			for _, again := range []string{"/mcp", "/verify"} {
				if got := status(g, again, proof); got != http.StatusUnauthorized {
					t.Errorf("a proof used at %s, at %s of %s: %d", path, again, name, got)
				}
			}
		}
	}
	for name, g := range map[string]*gate{"the next gateway": second, "the one after that": third} {
		if got := status(g, "/mcp", key.Prove("POST", resource, token, nil)); got != http.StatusOK {
			t.Errorf("a new proof at %s: %d", name, got)
		}
	}
}

// TestVerifyKeepsItsKeysAfterAReload: a gateway that serves /verify alone goes on with the keys that
// the one before has fetched for it, also while the issuer cannot be reached.
func TestVerifyKeepsItsKeysAfterAReload(t *testing.T) {
	alone := func(c *gateway.Config) {
		c.Upstream, c.VerifyOnly, c.InsecureTrustMCPHeaders = "", true, true
		c.Guard.Policy.Tools = map[string][]string{"list_notes": {"notes:read"}}
	}
	first := newGate(t, "", alone)
	status := func(g *gate, header map[string]string) int {
		r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1:9000/verify", nil)
		r.Header.Set("Authorization", "Bearer "+first.token(t, nil))
		for name, value := range header {
			r.Header.Set(name, value)
		}
		w := httptest.NewRecorder()
		g.ServeHTTP(w, r)
		return w.Code
	}
	ways := map[string]map[string]string{
		"without headers about the message": nil,
		"with headers about the message":    {"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "list_notes"},
	}
	for name, header := range ways {
		if got := status(first, header); got != http.StatusOK {
			t.Fatalf("%s: %d", name, got)
		}
	}
	first.issuer.SetDown(true)
	next := newNext(t, first, "", alone, func(c *gateway.Config) { c.Guard.ResourceName = "Another name" })
	for name, header := range ways {
		if got := status(next, header); got != http.StatusOK {
			t.Errorf("%s, after the reload: %d", name, got)
		}
	}
}
