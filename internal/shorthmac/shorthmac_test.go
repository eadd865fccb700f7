package shorthmac_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"testing"

	"gatehouse.example/internal/deptest"
	"gatehouse.example/internal/shorthmac"
)

// TestDeps keeps the package free of everything but SHA-256.
func TestDeps(t *testing.T) {
	deptest.Check(t)
}

// TestLengths compares with crypto/hmac at keys and messages of the lengths at which something changes.
func TestLengths(t *testing.T) {
	text := make([]byte, 700)
	for i := range text {
		text[i] = byte(i * 7)
	}
	for _, k := range []int{0, 1, 16, 32, 63, 64, 65, 200} {
		for _, n := range []int{0, 1, 31, 64, 119, 255, 256, 257, 600} {
			compare(t, text[:k], text[n:])
			compare(t, text[:k], text[:n])
		}
	}
	if allocs := testing.AllocsPerRun(10, func() { shorthmac.SHA256(text[:64], text[:256]) }); allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

func compare(t *testing.T, key, message []byte) {
	t.Helper()
	mac := hmac.New(sha256.New, key)
	mac.Write(message)
	if got := shorthmac.SHA256(key, message); string(got[:]) != string(mac.Sum(nil)) {
		t.Errorf("under %x, of %x: %x; want %x", key, message, got, mac.Sum(nil))
	}
}

// FuzzSHA256 compares with crypto/hmac.
func FuzzSHA256(f *testing.F) {
	f.Add([]byte("key"), []byte("message"))
	f.Fuzz(func(t *testing.T, key, message []byte) { compare(t, key, message) })
}
