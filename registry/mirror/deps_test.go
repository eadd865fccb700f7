package mirror

import (
	"testing"

	"gatehouse.example/internal/deptest"
)

// TestDeps: what fills a catalogue knows nothing of what shows it.
func TestDeps(t *testing.T) {
	deptest.Check(t)
}
