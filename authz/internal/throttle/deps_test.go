package throttle

import (
	"testing"

	"gatehouse.example/internal/deptest"
)

// TestDeps keeps the package free of everything but the standard library and what counts.
func TestDeps(t *testing.T) {
	deptest.Check(t)
}
