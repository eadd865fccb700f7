package main

import (
	"testing"

	"gatehouse.example/internal/deptest"
)

// TestDeps limits the demo to what it demonstrates: a server made of the middleware, the messages
// of the protocol and the official SDK. It shares the code for listening and logging with the
// other commands of this module.
func TestDeps(t *testing.T) {
	deptest.Check(t)
}
