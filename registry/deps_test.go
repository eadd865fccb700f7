package registry

import (
	"testing"

	"gatehouse.example/internal/deptest"
)

// TestDeps: the package needs no store, no network and no other package of the registry, so
// that a program that only reads records links nothing else.
func TestDeps(t *testing.T) {
	deptest.Check(t)
}
