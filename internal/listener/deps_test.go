package listener

import (
	"testing"

	"gatehouse.example/internal/deptest"
)

// TestDeps keeps the row of the import table.
func TestDeps(t *testing.T) {
	deptest.CheckTests(t)
}
