package framing_test

import (
	"testing"

	"gatehouse.example/internal/deptest"
)

// TestDeps allows no other package of the module but headername.
func TestDeps(t *testing.T) {
	deptest.CheckTests(t)
}
