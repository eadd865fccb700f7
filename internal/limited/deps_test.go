package limited_test

import (
	"testing"

	"gatehouse.example/internal/deptest"
)

// TestDeps checks that the package imports the standard library only.
func TestDeps(t *testing.T) { deptest.Check(t) }
