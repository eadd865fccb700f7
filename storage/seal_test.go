package storage

import (
	"bytes"
	"crypto/hkdf"
	"crypto/sha256"
	"strings"
	"testing"
)

// TestDerivedKeys compares with the library, one key after the other from the same states.
func TestDerivedKeys(t *testing.T) {
	prk := []byte("0123456789abcdef0123456789abcdef")
	keys := newDerivation(prk)
	for _, purpose := range []string{"", "a", "a", "gatehouse", strings.Repeat("long ", 40)} {
		want, err := hkdf.Expand(sha256.New, prk, purpose, 32)
		if err != nil {
			t.Fatal(err)
		}
		if got := keys.key([]byte(purpose)); !bytes.Equal(got[:], want) {
			t.Errorf("%q: %x, want %x", purpose, got, want)
		}
	}
}
