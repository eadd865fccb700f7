package uripattern

import (
	"testing"

	"gatehouse.example/internal/deptest"
)

// TestDeps checks that the package imports only the standard library and metadata.
func TestDeps(t *testing.T) {
	deptest.Check(t)
}
