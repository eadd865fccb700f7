package storage_test

import (
	"testing"

	"gatehouse.example/internal/deptest"
)

// TestDeps: storage stands on metadata only, so that a driver for another database needs
// nothing that belongs to Redis or to the authorization server.
func TestDeps(t *testing.T) {
	deptest.Check(t)
}
