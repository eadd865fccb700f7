package metadata_test

import (
	"testing"

	"gatehouse.example/internal/deptest"
)

// TestDeps checks that the package imports the standard library and internal/strictjson only,
// and that its tests add no dependency for users of the module.
func TestDeps(t *testing.T) {
	deptest.CheckTests(t)
}
