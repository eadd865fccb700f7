package storage_test

import (
	"testing"

	"gatehouse.example/internal/deptest"
)

// TestDeps: storage imports little of ours, so that a driver for another database needs nothing of
// Redis or of the authorization server.
func TestDeps(t *testing.T) {
	deptest.Check(t)
}
