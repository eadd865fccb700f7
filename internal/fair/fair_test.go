package fair_test

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"testing"

	"gatehouse.example/internal/fair"
)

func TestNetworks(t *testing.T) {
	for _, tt := range []struct {
		addr string
		want []string
	}{
		{"192.0.2.7", []string{"192.0.2.7/32", "192.0.2.0/24"}},
		{"::ffff:192.0.2.7", []string{"192.0.2.7/32", "192.0.2.0/24"}},
		{"2001:db8:1:2:3::4", []string{"2001:db8:1:2::/64", "2001:db8:1::/56", "2001:db8:1::/48"}},
		{"2001:db8:1:102::4%eth0", []string{"2001:db8:1:102::/64", "2001:db8:1:100::/56", "2001:db8:1::/48"}},
	} {
		if got := fair.Networks(netip.MustParseAddr(tt.addr)); !slices.Equal(got, tt.want) {
			t.Errorf("%s is in %q, want %q", tt.addr, got, tt.want)
		}
	}
	if got := fair.Networks(netip.Addr{}); len(got) != 1 {
		t.Errorf("no address is in %q, want one network", got)
	}
}

// TestNetworksOfManyAtOnce: many goroutines ask for more addresses than are remembered, and each gets
// the networks of its own.
func TestNetworksOfManyAtOnce(t *testing.T) {
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range 4096 {
				addr := netip.AddrFrom4([4]byte{192, 0, byte(i >> 8), byte(i)})
				if got := fair.Networks(addr); len(got) != 2 || got[0] != addr.String()+"/32" {
					t.Errorf("%s is in %q", addr, got)
				}
			}
		})
	}
	all.Wait()
}

func TestRequester(t *testing.T) {
	addr := netip.MustParseAddr("192.0.2.7")
	ctx := fair.WithRequester(context.Background(), addr)
	if got := fair.Requester(ctx); got != addr {
		t.Errorf("the requester is %v, want %v", got, addr)
	}
	if got := fair.Requester(context.Background()); got.IsValid() {
		t.Errorf("our own work has the requester %v", got)
	}
}
