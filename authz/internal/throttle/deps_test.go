package throttle

import (
	"testing"

	"gatehouse.example/internal/deptest"
)

// TestDeps checks that the package imports only the standard library and internal/fair.
func TestDeps(t *testing.T) {
	deptest.Check(t)
}
