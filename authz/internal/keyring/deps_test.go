package keyring_test

import (
	"testing"

	"gatehouse.example/internal/deptest"
)

// TestDeps checks that the package imports only the records, the documents and one JOSE
// library.
func TestDeps(t *testing.T) {
	deptest.Check(t)
}
