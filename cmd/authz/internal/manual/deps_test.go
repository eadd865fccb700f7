package manual

import (
	"testing"

	"gatehouse.example/internal/deptest"
)

// TestDeps keeps the package away from the commands that it describes.
func TestDeps(t *testing.T) {
	deptest.CheckTests(t)
}
