package schema

import (
	"testing"

	"gatehouse.example/internal/deptest"
)

// TestDeps keeps the package at its place in the house.
func TestDeps(t *testing.T) {
	deptest.CheckTests(t)
}
