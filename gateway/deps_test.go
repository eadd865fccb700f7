package gateway_test

import (
	"testing"

	"gatehouse.example/internal/deptest"
)

// TestDeps keeps the gateway above the middleware and beside the authorization server: it
// works with everybody's.
func TestDeps(t *testing.T) {
	deptest.CheckTests(t, "gatehouse.example/middleware/middlewaretest", "github.com/go-jose/go-jose/v4/...")
}
