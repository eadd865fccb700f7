package authz_test

import (
	"testing"

	"gatehouse.example/internal/deptest"
)

// TestDeps checks the imports: packages of this project below authz, and the router in
// routes.go only. fosite, go-jose and Redis are used by other packages only.
func TestDeps(t *testing.T) {
	deptest.Check(t)
}
