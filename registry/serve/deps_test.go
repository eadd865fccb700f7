package serve

import (
	"testing"

	"gatehouse.example/internal/deptest"
)

// TestDeps: what shows a catalogue knows nothing of what fills it.
func TestDeps(t *testing.T) {
	deptest.Check(t)
}
