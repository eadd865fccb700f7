package strictjson

import (
	"testing"

	"gatehouse.example/internal/deptest"
)

// TestDeps keeps the package at the bottom of the house: it imports the standard
// library alone, so that every package may decode with it.
func TestDeps(t *testing.T) {
	deptest.CheckTests(t)
}
