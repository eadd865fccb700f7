package admin_test

import (
	"testing"

	"gatehouse.example/internal/deptest"
)

// TestDeps keeps the operator's functions beside the authorization server and not above it: a
// program that administers a store needs neither the engine nor the pages.
func TestDeps(t *testing.T) {
	deptest.Check(t, ".", deptest.Rule{Allowed: []string{
		"gatehouse.example/dcr", "gatehouse.example/metadata", "gatehouse.example/storage", "gatehouse.example/internal/passwords",
		"gatehouse.example/authz/internal/account", "gatehouse.example/authz/internal/keyring",
	}})
}
