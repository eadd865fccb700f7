package doctor

import (
	"testing"

	"gatehouse.example/internal/deptest"
)

// TestDeps checks the package's row of the import table, also for its tests.
func TestDeps(t *testing.T) {
	deptest.CheckTests(t)
}
