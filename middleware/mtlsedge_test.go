package middleware_test

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// TestWhereCertificatesComeFrom shows sources that a guard does not use, and forms that are cut off.
func TestWhereCertificatesComeFrom(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	token, own := certBound(issuer), rfc8705Certificate(t)
	sum := sha256.Sum256(own.Raw)
	proxied := func(header string) *middleware.Guard {
		return newGuard(t, issuer, func(c *middleware.Config) {
			c.ClientCertificates.Header, c.TrustedProxies = header, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
		})
	}
	direct := newGuard(t, issuer, func(c *middleware.Config) { c.ClientCertificates.TLS = true })
	for name, c := range map[string]struct {
		header, value string
		want          int
	}{
		"a name in lower case":    {"x-ssl-cert", rfc8705DER, http.StatusTeapot},
		"no colon at the end":     {"Client-Cert", ":" + rfc8705DER, http.StatusUnauthorized},
		"no colon at the start":   {"Client-Cert", rfc8705DER + ":", http.StatusUnauthorized},
		"a second of Envoy":       {"X-Forwarded-Client-Cert", "Hash=" + hex.EncodeToString(sum[:]) + `;Subject="CN=a",By=b`, http.StatusUnauthorized},
		"of Envoy, in upper case": {"X-Forwarded-Client-Cert", "HASH=" + strings.ToUpper(hex.EncodeToString(sum[:])), http.StatusTeapot},
	} {
		r := withToken(token)
		r.RemoteAddr = "10.0.0.1:1234"
		r.Header.Set(c.header, c.value)
		if res := serve(proxied(c.header).Protect(&inner{}), r); res.StatusCode != c.want {
			t.Errorf("%s: %s, want %d", name, res.Status, c.want)
		}
	}
	refused(t, proxied("Client-Cert"), overTLS(token, own), http.StatusUnauthorized) // the connection was not named as a source
	plain := withToken(token)
	plain.TLS = nil
	refused(t, direct, plain, http.StatusUnauthorized)
	for want, guard := range map[string]*middleware.Guard{"": newGuard(t, issuer), "of the connection": direct, "of a header": proxied("Client-Cert")} {
		if got := body(t, guard.Metadata(), newRequest("GET", metaURL)); strings.Contains(got, `"tls_client_certificate_bound_access_tokens":true`) != (want != "") {
			t.Errorf("certificates %q: %s", want, got)
		}
	}
}
