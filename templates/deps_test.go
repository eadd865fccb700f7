package templates

import (
	"testing"

	"gatehouse.example/internal/deptest"
)

// TestDeps keeps the package on the ground floor: it imports the standard library and
// nothing else, in tests too, so that everything may import it.
func TestDeps(t *testing.T) {
	deptest.CheckTests(t)
}
