package storagetest

import (
	"testing"

	"gatehouse.example/internal/deptest"
)

// TestDeps: the suites import only storage, and metadata for its records, so that the author of a
// driver needs no other database to run them.
func TestDeps(t *testing.T) {
	deptest.Check(t)
}
