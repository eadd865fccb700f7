package gateway_test

import (
	"testing"

	"gatehouse.example/internal/deptest"
)

// TestDeps keeps the gateway above the middleware and independent of the authorization server: it
// works with any.
func TestDeps(t *testing.T) {
	deptest.CheckTests(t, "gatehouse.example/middleware/middlewaretest", "github.com/go-jose/go-jose/v4/...")
}
