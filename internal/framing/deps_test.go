package framing_test

import (
	"testing"

	"gatehouse.example/internal/deptest"
)

// TestDeps keeps the package at the bottom of the house.
func TestDeps(t *testing.T) {
	deptest.Check(t, ".", deptest.Rule{Allowed: []string{"gatehouse.example/internal/headername"}, InTests: []string{"gatehouse.example/internal/framing", "gatehouse.example/internal/deptest"}})
}
