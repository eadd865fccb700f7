package icon

import (
	"testing"

	"gatehouse.example/internal/deptest"
)

// TestDeps keeps the package at its place in the house.
func TestDeps(t *testing.T) {
	deptest.Check(t, ".", deptest.Rule{Allowed: []string{"gatehouse.example/message", "gatehouse.example/internal/fair", "gatehouse.example/safefetch", "golang.org/x/image/draw", "golang.org/x/image/webp"}, InTests: []string{"gatehouse.example/message/icon"}})
}
