package serve

import (
	"testing"

	"gatehouse.example/internal/deptest"
)

// TestDeps: the package does not depend on the packages that fill a catalogue.
func TestDeps(t *testing.T) {
	deptest.Check(t)
}
