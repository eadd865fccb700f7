package catalogue

import (
	"testing"

	"gatehouse.example/internal/deptest"
)

// TestDeps: a catalogue stands on a store alone, so that any backend can hold one.
func TestDeps(t *testing.T) {
	deptest.Check(t)
}
