package redis

import (
	"testing"

	"gatehouse.example/internal/deptest"
)

// TestDeps: the driver imports storage and the two Redis libraries, so that every rule about
// records stays in storage and every driver needs only that.
func TestDeps(t *testing.T) {
	deptest.Check(t)
}
