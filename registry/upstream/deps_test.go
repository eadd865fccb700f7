package upstream

import (
	"testing"

	"gatehouse.example/internal/deptest"
)

// TestDeps: a client needs records, and no store.
func TestDeps(t *testing.T) {
	deptest.Check(t, ".", deptest.Rule{Allowed: []string{
		"gatehouse.example/registry", "gatehouse.example/registry/internal/rawjson", "gatehouse.example/internal/strictjson",
	}})
}
