package middleware_test

import (
	"testing"

	"gatehouse.example/internal/deptest"
)

// TestDeps keeps the weight of this package where it is: whoever protects a server
// downloads one module besides this one. Test files count, because the go command
// resolves what they import for everybody who tidies a module that uses the package.
func TestDeps(t *testing.T) {
	deptest.CheckTests(t)
}
