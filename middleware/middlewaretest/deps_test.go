package middlewaretest_test

import (
	"testing"

	"gatehouse.example/internal/deptest"
)

// TestDeps keeps the fake issuer as light as the middleware: tests of third parties
// import it, and must not download more than the server that they test.
func TestDeps(t *testing.T) {
	deptest.Check(t, ".", deptest.Rule{Allowed: []string{"gatehouse.example/metadata", "gatehouse.example/middleware", "github.com/go-jose/go-jose/v4/..."}, InTests: []string{"gatehouse.example/middleware/middlewaretest"}, ForTests: true})
}
