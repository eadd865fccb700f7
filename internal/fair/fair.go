// Package fair divides limited resources fairly between networks.
//
// A [Limiter] bounds a rate by weight: of bytes, requests or failures. A [Queue] hands out a
// fixed number of places, such as processors for hashing or connections to other hosts. Both
// distinguish networks, not requests: an address with a thousand requests delays its own
// requests only. Their memory does not grow with the number of networks.
//
// Packages that do not see the HTTP request get the address of the requester from the context:
// [WithRequester], [Requester].
package fair

import (
	"context"
	"hash/maphash"
	"net/netip"
	"sync/atomic"
)

// The prefixes by which addresses are counted, in bits, narrowest first. Providers give
// one customer an IPv4 address or an IPv6 /64, /56 or /48.
var (
	prefixes4 = []int{32, 24}
	prefixes6 = []int{64, 56, 48}
)

// unknownNetwork is the network of all requesters without a valid address.
const unknownNetwork = "unknown"

// Networks returns the networks of an address as CIDR prefixes, narrowest first: /32 and /24 of
// IPv4, /64, /56 and /48 of IPv6. An IPv4-mapped IPv6 address counts as IPv4, and a zone is
// ignored. All invalid addresses are in one network. The slice is shared: callers must not change
// it.
func Networks(addr netip.Addr) []string {
	addr = addr.Unmap().WithZone("")
	place := &lately[maphash.Comparable(latelySeed, addr)%uint64(len(lately))]
	if known := place.Load(); known != nil && known.addr == addr {
		return known.networks
	}
	known := &networksOf{addr, networks(addr)}
	place.Store(known)
	return known.networks
}

// networksOf are the networks of an address.
type networksOf struct {
	addr     netip.Addr
	networks []string
}

// lately has the networks of addresses that were asked for: each request asks several times. They
// never change, so an address may only be replaced by another one.
var (
	lately     [512]atomic.Pointer[networksOf]
	latelySeed = maphash.MakeSeed()
)

func networks(addr netip.Addr) []string {
	if !addr.IsValid() {
		return []string{unknownNetwork}
	}
	prefixes := prefixes6
	if addr.Is4() {
		prefixes = prefixes4
	}
	networks := make([]string, len(prefixes))
	for i, bits := range prefixes {
		prefix, _ := addr.Prefix(bits) // the bits fit the family
		networks[i] = prefix.String()
	}
	return networks
}

// onBehalf is a context with a requester.
type onBehalf struct {
	context.Context
	addr netip.Addr
}

type requesterKey struct{}

// Value implements [context.Context].
func (c *onBehalf) Value(key any) any {
	if key == (requesterKey{}) {
		return &c.addr
	}
	return c.Context.Value(key)
}

// WithRequester returns a context for work on behalf of the requester at addr.
func WithRequester(ctx context.Context, addr netip.Addr) context.Context { return &onBehalf{ctx, addr} }

// Requester returns the address on whose behalf work is done. It is the zero Addr for the
// process's own work.
func Requester(ctx context.Context) netip.Addr {
	if addr, found := ctx.Value(requesterKey{}).(*netip.Addr); found {
		return *addr
	}
	return netip.Addr{}
}
