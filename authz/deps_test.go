package authz_test

import (
	"testing"

	"gatehouse.example/internal/deptest"
)

// TestDeps keeps the authorization server above its rooms: it may use ours below it and the
// router in routes.go. What knows fosite, go-jose or Redis is
// behind a wall of its own.
func TestDeps(t *testing.T) {
	deptest.Check(t)
}
