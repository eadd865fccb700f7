package middleware_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"net/http"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// discard is a ResponseWriter that allocates nothing.
type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(b []byte) (int, error) { return len(b), nil }
func (d discard) WriteHeader(int)             {}

var benchmarked = []jose.SignatureAlgorithm{jose.ES256, jose.EdDSA, jose.RS256}

// uncached makes a guard check each token as if it came for the first time.
func uncached(c *middleware.Config) { c.CachedTokens = -1 }

// BenchmarkVerify measures a token that is not in the cache, one that is, and the signature
// alone, which is the lower bound for a new token.
func BenchmarkVerify(b *testing.B) {
	for _, algorithm := range benchmarked {
		issuer := middlewaretest.NewIssuer(b)
		issuer.Rotate(algorithm)
		token := issuer.Mint(claims{"aud": resource, "scope": "notes:read notes:write"})
		b.Run("cold/"+string(algorithm), func(b *testing.B) { verifies(b, newGuard(b, issuer, uncached), token) })
		b.Run("bare/"+string(algorithm), func(b *testing.B) { bare(b, algorithm, len(token)) })
		b.Run("cached/"+string(algorithm), func(b *testing.B) { verifies(b, newGuard(b, issuer), token) })
	}
}

func verifies(b *testing.B, guard *middleware.Guard, token string) {
	if _, err := guard.Verify(b.Context(), token); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := guard.Verify(b.Context(), token); err != nil {
			b.Fatal(err)
		}
	}
}

// bare verifies one signature of a text of some length.
func bare(b *testing.B, algorithm jose.SignatureAlgorithm, size int) {
	text := make([]byte, size)
	sum := sha256.Sum256(text)
	var check func() bool
	switch key := middlewaretest.NewKey(b, algorithm).(type) {
	case *ecdsa.PrivateKey:
		signature, err := ecdsa.SignASN1(rand.Reader, key, sum[:])
		if err != nil {
			b.Fatal(err)
		}
		check = func() bool { sum := sha256.Sum256(text); return ecdsa.VerifyASN1(&key.PublicKey, sum[:], signature) }
	case ed25519.PrivateKey:
		signature, public := ed25519.Sign(key, text), key.Public().(ed25519.PublicKey)
		check = func() bool { return ed25519.Verify(public, text, signature) }
	case *rsa.PrivateKey:
		signature, err := rsa.SignPKCS1v15(nil, key, crypto.SHA256, sum[:])
		if err != nil {
			b.Fatal(err)
		}
		check = func() bool {
			sum := sha256.Sum256(text)
			return rsa.VerifyPKCS1v15(&key.PublicKey, crypto.SHA256, sum[:], signature) == nil
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		if !check() {
			b.Fatal("the signature is wrong")
		}
	}
}

// BenchmarkProtect measures a whole request with a cached token.
func BenchmarkProtect(b *testing.B) {
	issuer := middlewaretest.NewIssuer(b)
	handler := newGuard(b, issuer).Protect(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	request := withToken(issuer.Mint(claims{"aud": resource, "scope": "notes:read notes:write"}))
	w := discard{http.Header{}}
	handler.ServeHTTP(w, request)
	b.ReportAllocs()
	for b.Loop() {
		handler.ServeHTTP(w, request)
	}
}

// BenchmarkRefuse measures the cost of requests that unauthenticated clients can send.
func BenchmarkRefuse(b *testing.B) {
	issuer := middlewaretest.NewIssuer(b)
	guard := newGuard(b, issuer)
	good := issuer.Mint(claims{"aud": resource})
	if _, err := guard.Verify(b.Context(), good); err != nil {
		b.Fatal(err)
	}
	handler := guard.Protect(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for name, request := range map[string]*http.Request{
		"no token":         newRequest("POST", resource),
		"another audience": withToken(issuer.Mint(claims{"aud": "https://other.example.org"})),
		"another issuer":   withToken(issuer.Mint(claims{"aud": resource, "iss": "https://other.example.org"})),
		"wrong signature":  withToken(good[:len(good)-8] + "AAAAAAAA"),
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
