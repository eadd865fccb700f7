package middlewaretest_test

import (
	"testing"

	"gatehouse.example/internal/deptest"
)

// TestDeps limits the dependencies of the test issuer to those of the middleware: tests of third
// parties import it, and must not download more modules than their server.
func TestDeps(t *testing.T) {
	deptest.CheckTests(t, "gatehouse.example/middleware")
}
