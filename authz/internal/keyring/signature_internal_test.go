package keyring

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"errors"
	"math/big"
	"strconv"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"gatehouse.example/storage"
)

// TestAKeyHasOneAlgorithm: each kind of key signs with the algorithm of its kind alone, and a curve other
// than P-256 with none.
func TestAKeyHasOneAlgorithm(t *testing.T) {
	t.Parallel()
	ec := func(c elliptic.Curve) any {
		key, err := ecdsa.GenerateKey(c, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	rs, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for name, k := range map[string]struct {
		key any
		of  jose.SignatureAlgorithm
	}{
		"P-256": {ec(elliptic.P256()), jose.ES256}, "P-224": {ec(elliptic.P224()), ""}, "P-384": {ec(elliptic.P384()), ""}, "P-521": {ec(elliptic.P521()), ""},
		"Ed25519": {ed, jose.EdDSA}, "RSA": {rs, jose.RS256}, "a secret": {[]byte("secret"), ""}, "a public key": {&rs.PublicKey, ""}, "none": {nil, ""},
	} {
		for _, algorithm := range []jose.SignatureAlgorithm{jose.ES256, jose.ES384, jose.ES512, jose.EdDSA, jose.RS256, jose.RS384, jose.PS256, jose.HS256, "none", ""} {
			sign, err := signature(algorithm, k.key)
			if right := k.of != "" && algorithm == k.of; right != (err == nil) || right != (sign != nil) || !right && !errors.Is(err, storage.ErrRecord) {
				t.Errorf("%s with %q: %v", name, algorithm, err)
			}
		}
	}
}

// TestNumbersWithLeadingZeros: a signature has its two numbers in 32 bytes each, also where one of them
// is shorter. The key is always the same, so the signatures are too.
func TestNumbersWithLeadingZeros(t *testing.T) {
	t.Parallel()
	key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), big.NewInt(7).FillBytes(make([]byte, 32)))
	if err != nil {
		t.Fatal(err)
	}
	short := [2]int{}
	for i := range 1500 {
		input := []byte(strconv.Itoa(i))
		signed, err := signES256(key, input)
		if err != nil || len(signed) != 64 {
			t.Fatalf("%d bytes, %v", len(signed), err)
		}
		for half := range short {
			if signed[32*half] == 0 {
				short[half]++
			}
		}
		sum := sha256.Sum256(input)
		if !ecdsa.Verify(&key.PublicKey, sum[:], new(big.Int).SetBytes(signed[:32]), new(big.Int).SetBytes(signed[32:])) {
			t.Fatalf("signature %d is wrong: %x", i, signed)
		}
	}
	if short[0] == 0 || short[1] == 0 {
		t.Errorf("%d signatures begin with a zero", short)
	}
}

// TestDigestOfTheWholeToken: what is behind the longest token that is remembered counts too.
func TestDigestOfTheWholeToken(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 1, maxVerifiedToken - 1, maxVerifiedToken, maxVerifiedToken + 1, maxToken} {
		token := strings.Repeat("a", size)
		if digestOf(token) != sha256.Sum256([]byte(token)) {
			t.Errorf("the digest of %d bytes is that of something else", size)
		}
	}
}
