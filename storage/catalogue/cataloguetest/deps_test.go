package cataloguetest

import (
	"testing"

	"gatehouse.example/internal/deptest"
)

// TestDeps: the suite depends on no database but the one under test.
func TestDeps(t *testing.T) {
	deptest.Check(t)
}
