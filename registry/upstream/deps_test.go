package upstream

import (
	"testing"

	"gatehouse.example/internal/deptest"
)

// TestDeps: a client needs records, and no store.
func TestDeps(t *testing.T) {
	deptest.Check(t)
}
