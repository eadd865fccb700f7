package registrytest

import (
	"testing"

	"gatehouse.example/internal/deptest"
)

// TestDeps keeps the dependencies of tests that use this package small.
func TestDeps(t *testing.T) {
	deptest.Check(t)
}
