package gateway_test

import (
	"testing"

	"gatehouse.example/internal/deptest"
)

// TestDeps keeps the gateway above the middleware and beside the authorization server: it
// works with everybody's.
func TestDeps(t *testing.T) {
	deptest.Check(t, ".", deptest.Rule{
		Allowed: []string{"gatehouse.example/internal/arrival", "gatehouse.example/internal/headername", "gatehouse.example/internal/requestid", "gatehouse.example/metadata", "gatehouse.example/message", "gatehouse.example/middleware", "github.com/go-jose/go-jose/v4"},
		InTests: []string{"gatehouse.example/gateway", "gatehouse.example/middleware/middlewaretest", "github.com/go-jose/go-jose/v4/..."},
	})
}
