package upstream

import (
	"testing"

	"gatehouse.example/internal/deptest"
)

// TestDeps: the client depends on records and not on a store.
func TestDeps(t *testing.T) {
	deptest.Check(t)
}
