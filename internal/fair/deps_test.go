package fair

import (
	"testing"

	"gatehouse.example/internal/deptest"
)

// TestDeps keeps the package at the bottom of the house: it imports the standard
// library alone.
func TestDeps(t *testing.T) {
	deptest.CheckTests(t)
}
