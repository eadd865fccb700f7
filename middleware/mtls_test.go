package middleware_test

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// The certificate and its thumbprint in RFC 8705 appendix A.
const (
	rfc8705DER = "MIIBBjCBrAIBAjAKBggqhkjOPQQDAjAPMQ0wCwYDVQQDDARtdGxzMB4XDTE4MTAxODEyMzcwOVoXDTIyMDUwMjEyMzcwOVowDzENMAsGA1UEAwwEbXRsczBZMBMGByqG" +
		"SM49AgEGCCqGSM49AwEHA0IABNcnyxwqV6hY8QnhxxzFQ03C7HKW9OylMbnQZjjJ/Au08/coZwxS7LfA4vOLS9WuneIXhbGGWvsDSb0tH6IxLm8wCgYIKoZIzj0EAwID" +
		"SQAwRgIhAP0RC1E+vwJD/D1AGHGzuri+hlV/PpQEKTWUVeORWz83AiEA5x2eXZOVbUlJSGQgjwD5vaUaKlLR50Q2DmFfQj1L+SY="
	rfc8705Thumbprint = "A4DtL2JmUMhAsvJj5tKyn64SqzmuXbMrJa0n761y5v0"
)

func rfc8705Certificate(t testing.TB) *x509.Certificate {
	t.Helper()
	der, err := base64.StdEncoding.DecodeString(rfc8705DER)
	if err != nil {
		t.Fatal(err)
	}
	return &x509.Certificate{Raw: der}
}

func certBound(issuer *middlewaretest.Issuer) string {
	return issuer.Mint(claims{"aud": resource, "cnf": map[string]string{"x5t#S256": rfc8705Thumbprint}})
}

// overTLS returns a request over a connection with a certificate.
func overTLS(token string, certificates ...*x509.Certificate) *http.Request {
	r := withToken(token)
	r.TLS = &tls.ConnectionState{PeerCertificates: certificates}
	return r
}

// TestAnotherCertificateAtTheIssuer: an introspection response cannot bind a token to another
// certificate than the token itself.
func TestAnotherCertificateAtTheIssuer(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer, introspects(issuer), func(c *middleware.Config) { c.ClientCertificates.TLS = true })
	other := &x509.Certificate{Raw: []byte("another")}
	sum := sha256.Sum256(other.Raw)
	for thumbprint, want := range map[string]int{rfc8705Thumbprint: http.StatusTeapot, base64.RawURLEncoding.EncodeToString(sum[:]): http.StatusUnauthorized} {
		answers(issuer, answered(claims{"cnf": `{"x5t#S256":"` + thumbprint + `"}`}))
		certificate := other
		if want == http.StatusTeapot {
			certificate = rfc8705Certificate(t)
		}
		if res := serve(guard.Protect(&inner{}), overTLS(certBound(issuer), certificate)); res.StatusCode != want {
			t.Errorf("%s: %s", thumbprint, res.Status)
		}
	}
}

func TestCertificatesOfConnections(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer, func(c *middleware.Config) { c.ClientCertificates.TLS = true })
	token, own := certBound(issuer), rfc8705Certificate(t)
	if got := passes(t, guard, overTLS(token, own)).CertificateThumbprint(); got != rfc8705Thumbprint {
		t.Errorf("bound to %q", got)
	}
	passes(t, guard, overTLS(issuer.Mint(claims{"aud": resource}), own))
	other := &x509.Certificate{Raw: []byte("another")}
	for name, r := range map[string]*http.Request{
		"no TLS": withToken(token), "no certificate": overTLS(token), "another": overTLS(token, other), "in second place": overTLS(token, other, own),
	} {
		t.Run(name, func(t *testing.T) {
			if got := refused(t, guard, r, 401); get(got, "error") != "invalid_token" {
				t.Errorf("%s", got)
			}
		})
	}
	refused(t, newGuard(t, issuer), overTLS(token, own), 401)
	challengedBy(t, newGuard(t, issuer, accepting()), overTLS(token, own), "Bearer", "invalid_token")
}

// TestCertificatesInHandshakes takes a certificate from a real connection.
func TestCertificatesInHandshakes(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer, func(c *middleware.Config) { c.ClientCertificates.TLS = true })
	server := httptest.NewUnstartedServer(guard.Protect(&inner{}))
	server.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	server.StartTLS()
	defer server.Close()
	shown := server.TLS.Certificates[0] // any certificate with a key will do
	sum := sha256.Sum256(shown.Certificate[0])
	token := issuer.Mint(claims{"aud": resource, "cnf": map[string]string{"x5t#S256": base64.RawURLEncoding.EncodeToString(sum[:])}})
	for _, with := range []bool{true, false} {
		client := server.Client()
		transport := client.Transport.(*http.Transport).Clone()
		if with {
			transport.TLSClientConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &shown, nil }
		}
		req, err := http.NewRequest("GET", server.URL+"/mcp", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		res, err := (&http.Client{Transport: transport}).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		transport.CloseIdleConnections()
		if passed := res.StatusCode == http.StatusTeapot; passed != with {
			t.Errorf("with a certificate %t: %s", with, res.Status)
		}
	}
}

func TestCertificatesInHeaders(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	token, own := certBound(issuer), rfc8705Certificate(t)
	text := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: own.Raw}))
	hash := sha256.Sum256(own.Raw)
	envoy := "Hash=" + hex.EncodeToString(hash[:])
	from := func(address, name string, values ...string) *http.Request {
		r := withToken(token)
		r.RemoteAddr = address
		for _, value := range values {
			r.Header.Add(name, value)
		}
		return r
	}
	const proxy, stranger = "10.0.0.1:1234", "192.0.2.1:1234"
	for name, tt := range map[string]struct {
		header string
		r      *http.Request
		passes bool
	}{
		"nginx":                   {"X-Ssl-Cert", from(proxy, "X-Ssl-Cert", url.PathEscape(text)), true},
		"in base64":               {"X-Ssl-Cert", from(proxy, "X-Ssl-Cert", rfc8705DER), true},
		"RFC 9440":                {"Client-Cert", from(proxy, "Client-Cert", ":"+rfc8705DER+":"), true},
		"Envoy":                   {"X-Forwarded-Client-Cert", from(proxy, "X-Forwarded-Client-Cert", envoy+`;Subject="CN=a,O=b;Hash=00";URI=spiffe://example.org/a`), true},
		"from a stranger":         {"X-Ssl-Cert", from(stranger, "X-Ssl-Cert", url.PathEscape(text)), false},
		"twice":                   {"X-Ssl-Cert", from(proxy, "X-Ssl-Cert", url.PathEscape(text), url.PathEscape(text)), false},
		"in another spelling":     {"X-Ssl-Cert", from(proxy, "X_ssl_cert", url.PathEscape(text)), false},
		"none":                    {"X-Ssl-Cert", from(proxy, "X-Other", "x"), false},
		"empty":                   {"X-Ssl-Cert", from(proxy, "X-Ssl-Cert", ""), false},
		"a key":                   {"X-Ssl-Cert", from(proxy, "X-Ssl-Cert", url.PathEscape(strings.ReplaceAll(text, "CERTIFICATE", "PUBLIC KEY"))), false},
		"cut off":                 {"X-Ssl-Cert", from(proxy, "X-Ssl-Cert", url.PathEscape(text[:100])), false},
		"no colons":               {"Client-Cert", from(proxy, "Client-Cert", rfc8705DER), false},
		"several of Envoy":        {"X-Forwarded-Client-Cert", from(proxy, "X-Forwarded-Client-Cert", envoy+",By=x"), false},
		"two hashes of Envoy":     {"X-Forwarded-Client-Cert", from(proxy, "X-Forwarded-Client-Cert", envoy+";"+envoy), false},
		"no hash of Envoy":        {"X-Forwarded-Client-Cert", from(proxy, "X-Forwarded-Client-Cert", "By=x"), false},
		"Envoy, a hash in quotes": {"X-Forwarded-Client-Cert", from(proxy, "X-Forwarded-Client-Cert", `Subject="`+envoy+`"`), false},
	} {
		t.Run(name, func(t *testing.T) {
			guard := newGuard(t, issuer, func(c *middleware.Config) {
				c.ClientCertificates.Header, c.TrustedProxies = tt.header, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
			})
			if !tt.passes {
				refused(t, guard, tt.r, 401)
				return
			}
			tt.r.Header[strings.ReplaceAll(tt.header, "-", "_")] = []string{"forged"}
			var h inner
			if res := serve(guard.Protect(&h), tt.r); res.StatusCode != http.StatusTeapot {
				t.Fatal(res.Status)
			}
			for name := range h.requests[0].Header {
				if strings.EqualFold(strings.ReplaceAll(name, "_", "-"), tt.header) {
					t.Errorf("the handler got %s", name)
				}
			}
		})
	}
	// The certificate of a trusted proxy itself is not that of a client.
	guard := newGuard(t, issuer, func(c *middleware.Config) {
		c.ClientCertificates = middleware.ClientCertificates{TLS: true, Header: "X-Ssl-Cert"}
		c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	})
	r := overTLS(token, own)
	r.RemoteAddr = proxy
	refused(t, guard, r, 401)
	r = overTLS(token, own)
	r.RemoteAddr = stranger
	passes(t, guard, r)
}

// TestBothBindings needs the key and the certificate.
func TestBothBindings(t *testing.T) {
	issuer, key := middlewaretest.NewIssuer(t), middlewaretest.NewProofKey(t, jose.ES256)
	token := issuer.Mint(claims{"aud": resource, "cnf": map[string]string{"jkt": key.Thumbprint(), "x5t#S256": rfc8705Thumbprint}})
	guard := newGuard(t, issuer, accepting(), func(c *middleware.Config) { c.ClientCertificates.TLS = true })
	request := func(proof bool, certificates ...*x509.Certificate) *http.Request {
		r := overTLS(token, certificates...)
		if proof {
			key.Send(r, resource, token, nil)
		}
		return r
	}
	passes(t, guard, request(true, rfc8705Certificate(t)))
	challengedBy(t, guard, request(true), "DPoP", "invalid_token")
	challengedBy(t, guard, request(false, rfc8705Certificate(t)), "Bearer", "invalid_token")
	refused(t, newGuard(t, issuer, func(c *middleware.Config) { c.ClientCertificates.TLS = true }), request(true, rfc8705Certificate(t)), 401)
	for name, cnf := range map[string]any{
		"another kind":     map[string]any{"kid": "one"},
		"one kind more":    map[string]any{"jkt": key.Thumbprint(), "kid": "one"},
		"no kind":          map[string]any{},
		"no thumbprint":    map[string]any{"jkt": "short"},
		"stray bits":       map[string]any{"jkt": key.Thumbprint()[:42] + "_"},
		"a number":         map[string]any{"jkt": 1},
		"null":             map[string]any{"jkt": nil},
		"no object":        "key",
		"a key, not named": map[string]any{"jwk": key.Public()},
	} {
		t.Run(name, func(t *testing.T) {
			strange := issuer.Mint(claims{"aud": resource, "cnf": cnf})
			r := overTLS(strange, rfc8705Certificate(t))
			key.Send(r, resource, strange, nil)
			challengedBy(t, guard, r, "DPoP", "invalid_token")
		})
	}
}

func TestMistakesInClientCertificates(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	for header, proxied := range map[string]bool{"X-Ssl-Cert": false, "X_Ssl_Cert": true, "Authorization": true, "X-Forwarded-For": true, "Content-Type": true, "a b": true} {
		c := middleware.Config{Resource: resource, AuthorizationServers: []string{issuer.URL()}, ClientCertificates: middleware.ClientCertificates{Header: header}}
		if proxied {
			c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
		}
		if _, err := middleware.New(c); err == nil || !strings.Contains(err.Error(), "client certificates") {
			t.Errorf("%s: %v", header, err)
		}
	}
}
