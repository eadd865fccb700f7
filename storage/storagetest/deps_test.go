package storagetest

import (
	"testing"

	"gatehouse.example/internal/deptest"
)

// TestDeps: the suites stand on storage and on the metadata in its records, so that the
// author of a driver needs no other database to run them.
func TestDeps(t *testing.T) {
	deptest.Check(t)
}
