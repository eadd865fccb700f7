package direct

import (
	"testing"

	"gatehouse.example/internal/deptest"
)

// TestDeps keeps the package free of everything but the standard library.
func TestDeps(t *testing.T) {
	deptest.CheckTests(t)
}
