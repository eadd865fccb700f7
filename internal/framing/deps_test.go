package framing_test

import (
	"testing"

	"gatehouse.example/internal/deptest"
)

// TestDeps keeps the package at the bottom of the house.
func TestDeps(t *testing.T) {
	deptest.CheckTests(t)
}
