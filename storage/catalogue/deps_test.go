package catalogue

import (
	"testing"

	"gatehouse.example/internal/deptest"
)

// TestDeps: a catalogue depends on package storage alone, so that it works on every backend.
func TestDeps(t *testing.T) {
	deptest.Check(t)
}
