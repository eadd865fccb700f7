package settings

import (
	"testing"

	"gatehouse.example/internal/deptest"
)

// TestDeps keeps the package away from the commands and from what they configure.
func TestDeps(t *testing.T) {
	deptest.CheckTests(t)
}
