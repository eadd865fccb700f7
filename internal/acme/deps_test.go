package acme

import (
	"testing"

	"gatehouse.example/internal/deptest"
)

// TestDeps checks the imports of the package.
func TestDeps(t *testing.T) { deptest.Check(t) }
