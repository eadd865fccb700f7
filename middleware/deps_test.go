package middleware_test

import (
	"testing"

	"gatehouse.example/internal/deptest"
)

// TestDeps limits the dependencies of this package: it has one module besides this one. Test
// files count, because "go mod tidy" in a module that uses the package resolves their imports.
func TestDeps(t *testing.T) {
	deptest.CheckTests(t)
}
