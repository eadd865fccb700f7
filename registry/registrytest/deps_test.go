package registrytest

import (
	"testing"

	"gatehouse.example/internal/deptest"
)

// TestDeps keeps what the tests of others need small.
func TestDeps(t *testing.T) {
	deptest.Check(t)
}
