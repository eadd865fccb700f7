package metadata_test

import (
	"testing"

	"gatehouse.example/internal/deptest"
)

// TestDeps keeps this package at the bottom of the house: its own files import the
// standard library and the strict JSON decoder. Its tests may also import the package
// itself, and nothing that would make a user of the module download more.
func TestDeps(t *testing.T) {
	deptest.CheckTests(t)
}
