package failover

import (
	"testing"

	"gatehouse.example/internal/deptest"
)

// TestDeps keeps the rules of failovers free of any client library.
func TestDeps(t *testing.T) { deptest.Check(t) }
