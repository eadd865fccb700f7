package sim

import (
	"testing"

	"gatehouse.example/internal/deptest"
)

// TestDeps keeps the simulated world apart from the driver that is tested in it.
func TestDeps(t *testing.T) { deptest.Check(t) }
