package transfer

import (
	"testing"

	"gatehouse.example/internal/deptest"
)

// TestDeps: a copy knows backends by their interface alone.
func TestDeps(t *testing.T) {
	deptest.Check(t)
}
