package cataloguetest

import (
	"testing"

	"gatehouse.example/internal/deptest"
)

// TestDeps: the suites need no other database than the one that they test.
func TestDeps(t *testing.T) {
	deptest.Check(t)
}
