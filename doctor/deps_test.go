package doctor

import (
	"testing"

	"gatehouse.example/internal/deptest"
)

// TestDeps checks the package's row of the import table. Its tests import clients of
// other makers.
func TestDeps(t *testing.T) {
	deptest.Check(t)
}
