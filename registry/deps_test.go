package registry

import (
	"testing"

	"gatehouse.example/internal/deptest"
)

// TestDeps: records and their rules need no store, no network and no other room of the
// registry, so that whoever reads records gets nothing else.
func TestDeps(t *testing.T) {
	deptest.Check(t)
}
