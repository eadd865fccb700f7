package templates

import (
	"testing"

	"gatehouse.example/internal/deptest"
)

// TestDeps checks that the package imports only the sentences and the standard library, in tests too, so that
// every package may import it.
func TestDeps(t *testing.T) {
	deptest.CheckTests(t)
}
