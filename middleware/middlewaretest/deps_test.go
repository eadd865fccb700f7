package middlewaretest_test

import (
	"testing"

	"gatehouse.example/internal/deptest"
)

// TestDeps keeps the fake issuer as light as the middleware: tests of third parties
// import it, and must not download more than the server that they test.
func TestDeps(t *testing.T) {
	deptest.CheckTests(t, "gatehouse.example/middleware")
}
