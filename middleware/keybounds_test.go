package middleware_test

import (
	"bytes"
	"crypto/rsa"
	"encoding/base64"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"gatehouse.example/middleware/middlewaretest"
)

// TestKeysOfIssuersAreBounded checks that RSA keys are ignored whose exponent or size makes
// verification slow.
func TestKeysOfIssuersAreBounded(t *testing.T) {
	private := middlewaretest.NewKey(t, jose.RS256).(*rsa.PrivateKey)
	coded := base64.RawURLEncoding.EncodeToString
	modulus := coded(private.N.Bytes())
	other := func(bits int) string {
		return coded(append([]byte{1 << ((bits - 1) % 8)}, bytes.Repeat([]byte{0xff}, (bits-1)/8)...))
	}
	for name, test := range map[string]struct {
		n, e string
		want int
	}{
		"usual":                        {modulus, "AQAB", 200},
		"with leading zeros":           {modulus, coded([]byte{0, 0, 1, 0, 1}), 200},
		"an exponent cut off is usual": {modulus, coded([]byte{1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1}), 503},
		"a long exponent":              {modulus, coded(bytes.Repeat([]byte{0xff}, 256)), 503},
		"a 63-bit exponent":            {modulus, coded(bytes.Repeat([]byte{0x7f}, 8)), 503},
		"an even exponent":             {modulus, coded([]byte{1, 0, 0}), 503},
		"exponent 1":                   {modulus, "AQ", 503},
		"1024 bits":                    {other(1024), "AQAB", 503},
		"4097 bits":                    {other(4097), "AQAB", 503},
		"8192 bits":                    {other(8192), "AQAB", 503},
		"4096 bits, and not the one":   {other(4096), "AQAB", 401},
	} {
		t.Run(name, func(t *testing.T) {
			issuer := middlewaretest.NewIssuer(t)
			issuer.SetKeys(jose.JSONWebKey{Key: private, KeyID: "one", Algorithm: string(jose.RS256)})
			token := issuer.Mint(claims{"aud": resource})
			issuer.SetDocument(jwkPath, map[string]any{"keys": []any{map[string]any{"kty": "RSA", "kid": "one", "n": test.n, "e": test.e}}})
			wantStatus(t, newGuard(t, issuer), withToken(token), test.want)
		})
	}
}
