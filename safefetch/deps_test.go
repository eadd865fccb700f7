package safefetch

import (
	"testing"

	"gatehouse.example/internal/deptest"
)

// TestDeps keeps the package at the bottom of the house: it imports the queue and the standard
// library alone, so that every package may fetch with it.
func TestDeps(t *testing.T) {
	deptest.CheckTests(t)
}
