package listener

import (
	"testing"

	"gatehouse.example/internal/deptest"
)

// TestDeps keeps the row of the import table.
func TestDeps(t *testing.T) {
	deptest.Check(t, ".", deptest.Rule{
		Allowed: []string{"gatehouse.example/internal/fair", "gatehouse.example/internal/framing", "gatehouse.example/internal/quietlog"},
		InTests: []string{"gatehouse.example/internal/listener/..."},
	})
}
