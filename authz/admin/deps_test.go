package admin_test

import (
	"testing"

	"gatehouse.example/internal/deptest"
)

// TestDeps checks that the package imports neither the engine nor the pages: a program that
// administers a store needs neither.
func TestDeps(t *testing.T) {
	deptest.Check(t)
}
