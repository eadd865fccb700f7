package safefetch

import (
	"testing"

	"gatehouse.example/internal/deptest"
)

// TestDeps checks that the package imports internal/fair and the standard library only, so that
// every package may use it.
func TestDeps(t *testing.T) {
	deptest.CheckTests(t)
}
