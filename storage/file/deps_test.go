package file

import (
	"testing"

	"gatehouse.example/internal/deptest"
)

// TestDeps: the driver imports storage and the engine, so that every rule about records stays in
// storage.
func TestDeps(t *testing.T) {
	deptest.Check(t)
}
