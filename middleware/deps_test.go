package middleware_test

import (
	"testing"

	"gatehouse.example/internal/deptest"
)

// TestDeps keeps the weight of this package where it is: whoever protects a server
// downloads one module besides this one. Test files count, because the go command
// resolves what they import for everybody who tidies a module that uses the package.
func TestDeps(t *testing.T) {
	deptest.Check(t, ".", deptest.Rule{Allowed: []string{"gatehouse.example/metadata", "gatehouse.example/message", "gatehouse.example/internal/strictjson", "gatehouse.example/internal/framing", "gatehouse.example/internal/arrival", "gatehouse.example/internal/headername", "gatehouse.example/internal/requestid", "gatehouse.example/internal/wildcard", "github.com/go-jose/go-jose/v4/..."}, InTests: []string{"gatehouse.example/middleware/..."}})
}
