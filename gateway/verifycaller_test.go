package gateway_test

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"gatehouse.example/gateway"
	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// The certificate of the proxy that asks is not that of the client, and the address that it names
// is.
func TestVerifyTakesTheProxyForAProxy(t *testing.T) {
	var seen netip.Addr
	g := newGate(t, "http://127.0.0.1:1", func(c *gateway.Config) {
		c.Guard.ClientCertificates.TLS = true
		c.Guard.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
		c.Guard.Observe = func(_ *http.Request, e middleware.Event) { seen = e.Remote }
	})
	der := []byte("a certificate in DER")
	sum := sha256.Sum256(der)
	bound := g.issuer.Mint(middlewaretest.Claims{"aud": resource, "cnf": map[string]string{"x5t#S256": base64.RawURLEncoding.EncodeToString(sum[:])}})
	for path, want := range map[string]int{"/verify": http.StatusUnauthorized, "/mcp": http.StatusBadGateway} {
		r := httptest.NewRequest("GET", "https://notes.example.com"+path, nil)
		r.RemoteAddr, r.TLS = trustedProxy, &tls.ConnectionState{HandshakeComplete: true, PeerCertificates: []*x509.Certificate{{Raw: der}}}
		r.Header.Set("Authorization", "Bearer "+bound)
		r.Header.Set("X-Forwarded-For", "198.51.100.7")
		w := httptest.NewRecorder()
		if g.ServeHTTP(w, r); w.Code != want || seen != netip.MustParseAddr("198.51.100.7") {
			t.Errorf("%s: %d %s, from %s", path, w.Code, w.Body, seen)
		}
	}
}

// A proxy needs an identity, also where the resource does not.
func TestVerifyDemandsAToken(t *testing.T) {
	g := newGate(t, "http://127.0.0.1:1", func(c *gateway.Config) { c.Guard.Optional = true })
	for path, want := range map[string]int{"/verify": http.StatusUnauthorized, "/mcp": http.StatusBadGateway} {
		w := httptest.NewRecorder()
		g.ServeHTTP(w, httptest.NewRequest("GET", "https://notes.example.com"+path, nil))
		if w.Code != want || (w.Header().Get("WWW-Authenticate") != "") != (want == http.StatusUnauthorized) {
			t.Errorf("%s: %d %v", path, w.Code, w.Header())
		}
	}
}

// A decision by the headers about a message has the challenge of the resource.
func TestVerifyByHeadersChallenges(t *testing.T) {
	g := newGate(t, "http://127.0.0.1:1", func(c *gateway.Config) {
		c.InsecureTrustMCPHeaders = true
		c.Guard.Policy.Tools = map[string][]string{"list_notes": {"notes:read"}, "add_note": {"notes:write"}}
		c.Guard.ChallengeScopes = []string{"notes:read"}
	})
	for _, sighted := range []bool{true, false} {
		r := httptest.NewRequest("GET", "https://notes.example.com/verify", nil)
		if sighted {
			r.Header = http.Header{"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"ping"}}
		}
		w := httptest.NewRecorder()
		g.ServeHTTP(w, r)
		if got := w.Header().Get("WWW-Authenticate"); w.Code != http.StatusUnauthorized || strings.Contains(got, "notes:write") == sighted || !strings.Contains(got, "notes:read") {
			t.Errorf("sighted %t: %d %s", sighted, w.Code, got)
		}
	}
}
