package strictjson

import (
	"testing"

	"gatehouse.example/internal/deptest"
)

// TestDeps checks that the package imports the standard library only, so that every package may
// use it.
func TestDeps(t *testing.T) {
	deptest.CheckTests(t)
}
