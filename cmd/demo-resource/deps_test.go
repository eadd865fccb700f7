package main

import (
	"testing"

	"gatehouse.example/internal/deptest"
)

// TestDeps keeps the demo what it shows: a server that anybody could write with the
// middleware, the messages of the protocol and the official SDK. How it listens, and keeps its
// log short, is what all our programs do.
func TestDeps(t *testing.T) {
	deptest.Check(t)
}
