package middleware_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/asn1"
	"encoding/base64"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// allAlgorithms are the signature algorithms that a guard can be told to accept.
var allAlgorithms = []jose.SignatureAlgorithm{
	jose.ES256, jose.ES384, jose.ES512, jose.EdDSA, jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512,
}

// BenchmarkFirstSight measures a token that the guard sees for the first time, and the bare check of
// its signature by the standard library, in turn. It reports the medians in nanoseconds, and
// their ratio as "x-bare". In turn, because the machine may become slower on the way.
func BenchmarkFirstSight(b *testing.B) {
	for _, algorithm := range allAlgorithms {
		b.Run(string(algorithm), func(b *testing.B) {
			issuer := middlewaretest.NewIssuer(b)
			key := publish(b, issuer, algorithm)
			guard := newGuard(b, issuer, only(issuer, algorithm), func(c *middleware.Config) { c.CachedTokens = 1 })
			var tokens [2]string // each takes the place of the other in the cache
			var bare [2]func() bool
			for i := range tokens {
				tokens[i] = issuer.Mint(claims{"aud": resource, "scope": "notes:read notes:write", "sub": fmt.Sprint("reader-", i)})
				bare[i] = bareCheck(b, key.(crypto.Signer).Public(), algorithm, tokens[i])
			}
			var first, alone []time.Duration
			for i := 0; b.Loop(); i++ {
				begin := time.Now()
				_, err := guard.Verify(b.Context(), tokens[i%2])
				middle := time.Now()
				valid := bare[i%2]()
				end := time.Now()
				if err != nil || !valid {
					b.Fatal(err, valid)
				}
				first, alone = append(first, middle.Sub(begin)), append(alone, end.Sub(middle))
			}
			slices.Sort(first)
			slices.Sort(alone)
			whole, part := first[len(first)/2], alone[len(alone)/2]
			b.ReportMetric(0, "ns/op") // that of both together means nothing
			b.ReportMetric(float64(whole), "ns-first")
			b.ReportMetric(float64(part), "ns-bare")
			b.ReportMetric(float64(whole)/float64(part), "x-bare")
		})
	}
}

// only makes a guard accept tokens of one algorithm.
func only(issuer *middlewaretest.Issuer, algorithm jose.SignatureAlgorithm) func(*middleware.Config) {
	return func(c *middleware.Config) {
		c.Issuers = []middleware.Issuer{{URL: issuer.URL(), Algorithms: []string{string(algorithm)}}}
	}
}

// bareCheck returns a check of the signature of a token that does nothing else: what there is to
// decode is decoded before.
func bareCheck(b *testing.B, public crypto.PublicKey, algorithm jose.SignatureAlgorithm, token string) func() bool {
	b.Helper()
	dot := strings.LastIndexByte(token, '.')
	text := []byte(token[:dot])
	signature, err := base64.RawURLEncoding.DecodeString(token[dot+1:])
	if err != nil {
		b.Fatal(err)
	}
	hash := map[string]crypto.Hash{"256": crypto.SHA256, "384": crypto.SHA384, "512": crypto.SHA512}[string(algorithm[2:])]
	sum := func() []byte {
		h := hash.New()
		h.Write(text)
		return h.Sum(nil)
	}
	switch key := public.(type) {
	case ed25519.PublicKey:
		return func() bool { return ed25519.Verify(key, text, signature) }
	case *ecdsa.PublicKey:
		half := len(signature) / 2
		der, err := asn1.Marshal(struct{ R, S *big.Int }{new(big.Int).SetBytes(signature[:half]), new(big.Int).SetBytes(signature[half:])})
		if err != nil {
			b.Fatal(err)
		}
		return func() bool { return ecdsa.VerifyASN1(key, sum(), der) }
	case *rsa.PublicKey:
		exact := &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash}
		if algorithm[0] == 'P' {
			return func() bool { return rsa.VerifyPSS(key, hash, sum(), signature, exact) == nil }
		}
		return func() bool { return rsa.VerifyPKCS1v15(key, hash, sum(), signature) == nil }
	}
	b.Fatalf("there is no check for %T", public)
	return nil
}
