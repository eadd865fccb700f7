package middleware_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"net/http"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"gatehouse.example/middleware/middlewaretest"
)

// discard is a ResponseWriter that costs nothing.
type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(b []byte) (int, error) { return len(b), nil }
func (d discard) WriteHeader(int)             {}

// BenchmarkProtect measures a request with a good token whose key is cached.
func BenchmarkProtect(b *testing.B) {
	for _, algorithm := range []jose.SignatureAlgorithm{jose.ES256, jose.EdDSA, jose.RS256} {
		b.Run(string(algorithm), func(b *testing.B) {
			issuer := middlewaretest.NewIssuer(b)
			issuer.Rotate(algorithm)
			handler := newGuard(b, issuer).Protect(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
			request := withToken(issuer.Mint(claims{"aud": resource, "scope": "notes:read notes:write"}))
			w := discard{http.Header{}}
			handler.ServeHTTP(w, request)
			b.ReportAllocs()
			for b.Loop() {
				handler.ServeHTTP(w, request)
			}
		})
	}
}

// BenchmarkSignature is what no verification can be faster than.
func BenchmarkSignature(b *testing.B) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		b.Fatal(err)
	}
	digest := sha256.Sum256([]byte("claims"))
	signature, err := ecdsa.SignASN1(rand.Reader, key, digest[:])
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if !ecdsa.VerifyASN1(&key.PublicKey, digest[:], signature) {
			b.Fatal("the signature is wrong")
		}
	}
}

// BenchmarkRefuse measures what strangers can make a server do.
func BenchmarkRefuse(b *testing.B) {
	issuer := middlewaretest.NewIssuer(b)
	handler := newGuard(b, issuer).Protect(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for name, request := range map[string]*http.Request{
		"no token":         newRequest("POST", resource),
		"another audience": withToken(issuer.Mint(claims{"aud": "https://other.example.org"})),
		"not a JWT":        withToken("gho_16C7e42F292c6912E7710c838347Ae178B4a"),
	} {
		b.Run(name, func(b *testing.B) {
			w := discard{http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				handler.ServeHTTP(w, request)
			}
		})
	}
}
