package serve

import (
	"testing"

	"gatehouse.example/internal/deptest"
)

// TestDeps: what shows a catalogue knows nothing of what fills it.
func TestDeps(t *testing.T) {
	deptest.Check(t, ".", deptest.Rule{Allowed: []string{
		"gatehouse.example/registry", "gatehouse.example/registry/internal/rawjson", "gatehouse.example/message", "gatehouse.example/message/icon",
		"gatehouse.example/storage", "gatehouse.example/storage/catalogue", "gatehouse.example/templates", "gatehouse.example/internal/fair",
	}})
}
