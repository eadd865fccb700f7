package keyring_test

import (
	"testing"

	"gatehouse.example/internal/deptest"
)

// TestDeps keeps the key ring small: the records, the documents and one JOSE library.
func TestDeps(t *testing.T) {
	deptest.Check(t)
}
