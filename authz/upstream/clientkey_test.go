package upstream_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"gatehouse.example/authz/upstream"
	"gatehouse.example/authz/upstream/upstreamtest"
)

// A secret goes the way that the provider's metadata lists first; a key signs instead of it.
func TestClientAuthentication(t *testing.T) {
	for name, test := range map[string]struct {
		methods     []string
		basic, post bool
	}{
		"basic":   {[]string{"client_secret_basic", "client_secret_post"}, true, false},
		"post":    {[]string{"private_key_jwt", "client_secret_post"}, false, true},
		"no list": {nil, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, upstream.OIDC)
			var basic, post bool
			s.fake.Change(func(a *upstreamtest.Answers) {
				a.Metadata = func(m map[string]any) {
					if m["token_endpoint_auth_methods_supported"] = test.methods; test.methods == nil {
						delete(m, "token_endpoint_auth_methods_supported")
					}
				}
				a.First = func(_ http.ResponseWriter, r *http.Request) bool {
					if r.URL.Path == "/token" {
						_, _, basic = r.BasicAuth()
						post = r.FormValue("client_secret") != "" || r.FormValue("client_id") != ""
					}
					return false
				}
			})
			s.arrives()
			if basic != test.basic || post != test.post {
				t.Errorf("basic %t, post %t", basic, post)
			}
		})
	}
	s := start(t, upstream.OIDC, func(p *upstream.Provider) { p.ClientSecret = "wrong" })
	_, err := s.signIn()
	refuses(t, err, upstream.ErrMisconfigured, upstream.ReasonClient)
	if strings.Contains(err.Error(), "wrong") {
		t.Error("the error has the secret")
	}
}

func pemOf(t *testing.T, kind string, der []byte, err error) []byte {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// newRSA returns a key with a certificate.
func newRSA(t *testing.T, bits int) (key *rsa.PrivateKey, certificate []byte) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	certificate, err = x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return key, certificate
}

// An assertion names this server, one audience, and a minute; the provider can verify it.
func TestClientKey(t *testing.T) {
	key, certificate := newRSA(t, 2048)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	data := append(pemOf(t, "PRIVATE KEY", der, err), pemOf(t, "CERTIFICATE", certificate, nil)...)
	parsed, err := upstream.ParseClientKey(data)
	if err != nil {
		t.Fatal(err)
	}
	parsed.ID = "our key"
	for preset, audience := range map[string]string{upstream.OIDC: "", upstream.Entra: "/token"} {
		s := start(t, preset, func(p *upstream.Provider) { p.ClientSecret, p.ClientKey = "", parsed })
		var assertion, secret, kind string
		s.fake.Change(func(a *upstreamtest.Answers) {
			a.First = func(_ http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path == "/token" {
					assertion, secret, kind = r.FormValue("client_assertion"), r.FormValue("client_secret"), r.FormValue("client_assertion_type")
				}
				return false
			}
		})
		s.arrives()
		signed, err := jose.ParseSignedCompact(assertion, []jose.SignatureAlgorithm{jose.RS256})
		if err != nil {
			t.Fatal(err)
		}
		payload, err := signed.Verify(key.Public())
		if err != nil {
			t.Fatal(err)
		}
		claims := decode(t, payload)
		if claims["iss"] != upstreamtest.ClientID || claims["sub"] != upstreamtest.ClientID || claims["aud"] != s.fake.URL()+audience || claims["jti"] == "" ||
			claims["exp"].(float64)-claims["iat"].(float64) != 60 || secret != "" || kind != "urn:ietf:params:oauth:client-assertion-type:jwt-bearer" {
			t.Errorf("claims %v, secret %q, type %q", claims, secret, kind)
		}
		sum := sha256.Sum256(certificate)
		header := signed.Signatures[0].Header
		if header.KeyID != "our key" || header.ExtraHeaders["x5t#S256"] != base64.RawURLEncoding.EncodeToString(sum[:]) {
			t.Errorf("header %+v", header)
		}
	}
}

// Keys come as PEM in three encodings or as a JWK; others are refused, and never quoted.
func TestParseClientKey(t *testing.T) {
	rsaKey, certificate := newRSA(t, 2048)
	weak, issuers := newRSA(t, 1024)
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8 := func(key crypto.Signer) []byte {
		der, err := x509.MarshalPKCS8PrivateKey(key)
		return pemOf(t, "PRIVATE KEY", der, err)
	}
	jwk := func(key any, algorithm string) []byte {
		data, err := json.Marshal(jose.JSONWebKey{Key: key, KeyID: "k", Algorithm: algorithm})
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	leaf, err := x509.ParseCertificate(certificate)
	if err != nil {
		t.Fatal(err)
	}
	withCertificate, err := json.Marshal(jose.JSONWebKey{Key: rsaKey, Certificates: []*x509.Certificate{leaf}})
	if err != nil {
		t.Fatal(err)
	}
	sec1, err := x509.MarshalECPrivateKey(ec)
	for name, test := range map[string]struct {
		data []byte
		fine bool
	}{
		"PKCS #8, RSA":                    {pkcs8(rsaKey), true},
		"PKCS #8, Ed25519":                {pkcs8(ed), true},
		"PKCS #1":                         {pemOf(t, "RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(rsaKey), nil), true},
		"SEC 1":                           {pemOf(t, "EC PRIVATE KEY", sec1, err), true},
		"JWK":                             {jwk(ec, "ES256"), true},
		"JWK without alg":                 {jwk(rsaKey, ""), true},
		"JWK with PS256":                  {jwk(rsaKey, "PS256"), true},
		"JWK with HS256":                  {jwk(rsaKey, "HS256"), false},
		"JWK with another alg":            {jwk(ec, "ES384"), false},
		"a public JWK":                    {jwk(ec.Public(), "ES256"), false},
		"a symmetric JWK":                 {jwk([]byte("0123456789abcdef0123456789abcdef"), "HS256"), false},
		"a weak key":                      {pkcs8(weak), false},
		"two keys":                        {append(pkcs8(rsaKey), pkcs8(ed)...), false},
		"the certificate only":            {pemOf(t, "CERTIFICATE", certificate, nil), false},
		"another key's certificate":       {append(pkcs8(ed), pemOf(t, "CERTIFICATE", certificate, nil)...), false},
		"a certificate with its issuer's": {slices.Concat(pkcs8(rsaKey), pemOf(t, "CERTIFICATE", certificate, nil), pemOf(t, "CERTIFICATE", issuers, nil)), true},
		"a certificate in a JWK":          {withCertificate, true},
		"nothing":                         {nil, false},
		"text":                            {[]byte("the secret text"), false},
		"broken PEM":                      {pemOf(t, "PRIVATE KEY", []byte("the secret text"), nil), false},
		"broken JWK":                      {[]byte(`{"kty":"EC","d":"the secret text"}`), false},
	} {
		t.Run(name, func(t *testing.T) {
			key, err := upstream.ParseClientKey(test.data)
			if (err == nil) != test.fine || (key != nil) != test.fine {
				t.Errorf("key %t, %v", key != nil, err)
			}
			if key != nil && strings.Contains(name, "certificate") && !bytes.Equal(key.Certificate, certificate) {
				t.Error("the certificate is not that of the key")
			}
			if err != nil && strings.Contains(err.Error(), "secret text") {
				t.Error("the error quotes the file")
			}
		})
	}
}
