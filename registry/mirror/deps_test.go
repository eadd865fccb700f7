package mirror

import (
	"testing"

	"gatehouse.example/internal/deptest"
)

// TestDeps: what fills a catalogue knows nothing of what shows it.
func TestDeps(t *testing.T) {
	deptest.Check(t, ".", deptest.Rule{Allowed: []string{
		"gatehouse.example/registry", "gatehouse.example/registry/upstream", "gatehouse.example/registry/internal/rawjson",
		"gatehouse.example/storage", "gatehouse.example/storage/catalogue", "gatehouse.example/internal/strictjson",
	}})
}
