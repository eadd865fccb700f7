package redistest

import (
	"testing"

	"gatehouse.example/internal/deptest"
)

// TestDeps keeps the servers for tests apart from the driver that is tested with them.
func TestDeps(t *testing.T) { deptest.Check(t) }
