package mirror

import (
	"testing"

	"gatehouse.example/internal/deptest"
)

// TestDeps: the writer of a catalogue does not depend on package serve.
func TestDeps(t *testing.T) {
	deptest.Check(t)
}
