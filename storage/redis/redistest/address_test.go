package redistest_test

import (
	"net"
	"testing"

	"gatehouse.example/storage/redis/redistest"
)

// TestFreeAddress: an address is free for a server, and nobody else gets it, in no process.
func TestFreeAddress(t *testing.T) {
	given := redistest.FreeAddress(t)
	listener, err := net.Listen("tcp", given)
	if err != nil {
		t.Fatalf("no server can listen at %s: %v", given, err)
	}
	_ = listener.Close()
	// What reserves an address is a socket that the system gives to one process at a time.
	if other, err := net.ListenPacket("udp", given); err == nil {
		_ = other.Close()
		t.Errorf("%s is not reserved", given)
	}
}
