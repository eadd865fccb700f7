package registry

import (
	"testing"

	"gatehouse.example/internal/deptest"
)

// TestDeps keeps the package at its place in the house.
func TestDeps(t *testing.T) {
	deptest.Check(t, ".", deptest.Rule{Allowed: []string{
		"gatehouse.example/message", "gatehouse.example/message/icon", "gatehouse.example/message/schema", "gatehouse.example/registry/internal/rawjson",
		"gatehouse.example/storage", "gatehouse.example/storage/catalogue", "gatehouse.example/templates", "gatehouse.example/internal/...",
	}})
}
