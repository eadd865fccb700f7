package redis_test

import (
	"os"
	"strings"
	"testing"
)

// TestEmbeddedHasNoSocket: an embedded store can be reached from inside the process only.
func TestEmbeddedHasNoSocket(t *testing.T) {
	before := sockets(t)
	b := openEmbedded(t)
	defer b.Close()
	if after := sockets(t); after != before {
		t.Errorf("the process has %d sockets, before there were %d", after, before)
	}
}

func sockets(t *testing.T) (n int) {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if name, err := os.Readlink("/proc/self/fd/" + file.Name()); err == nil && strings.HasPrefix(name, "socket:") {
			n++
		}
	}
	return n
}
