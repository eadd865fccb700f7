package safefetch_test

import (
	"context"
	"net/netip"
	"testing"

	"gatehouse.example/safefetch"
)

// TestRequester: the requester is part of the context, and a plain context has none.
func TestRequester(t *testing.T) {
	addr := netip.MustParseAddr("192.0.2.1")
	if got := safefetch.Requester(safefetch.WithRequester(t.Context(), addr)); got != addr {
		t.Errorf("the requester is %v, want %v", got, addr)
	}
	if got := safefetch.Requester(context.Background()); got.IsValid() {
		t.Errorf("the requester of our own work is %v", got)
	}
}
