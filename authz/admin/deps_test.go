package admin_test

import (
	"testing"

	"gatehouse.example/internal/deptest"
)

// TestDeps keeps the operator's functions beside the authorization server and not above it: a
// program that administers a store needs neither the engine nor the pages.
func TestDeps(t *testing.T) {
	deptest.Check(t)
}
