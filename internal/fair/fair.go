// Package fair bounds what strangers may cause, so that nobody uses up what belongs to
// everybody.
//
// A [Limiter] bounds how much somebody may cause in a time, by weight: bytes, requests or
// failures. A [Queue] hands out a fixed number of places, such as processors for hashing
// or connections to other hosts. Both go by network and not by request: one address
// with a thousand requests waits for itself, and whoever comes from elsewhere does not
// notice. What they keep in memory does not grow with the number of networks.
//
// Rooms that do not see the HTTP request learn from the context on whose behalf they
// work: [WithRequester], [Requester].
package fair

import (
	"context"
	"net/netip"
)

// The prefixes by which addresses are counted, in bits, narrowest first. Providers give
// one customer an IPv4 address or an IPv6 /64, /56 or /48.
var (
	prefixes4 = []int{32, 24}
	prefixes6 = []int{64, 56, 48}
)

// unknownNetwork is the one network of all whose address is not known.
const unknownNetwork = "unknown"

// Networks returns the networks that an address belongs to as CIDR prefixes, narrowest
// first: /32 and /24 of IPv4, /64, /56 and /48 of IPv6. An IPv4 address that is written
// as IPv6 counts as IPv4, and a zone does not count. All invalid addresses are one
// network of their own.
func Networks(addr netip.Addr) []string {
	addr = addr.Unmap().WithZone("")
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

type requesterKey struct{}

// WithRequester returns a context for work that is done for whoever asks from addr.
func WithRequester(ctx context.Context, addr netip.Addr) context.Context {
	return context.WithValue(ctx, requesterKey{}, addr)
}

// Requester returns the address that work is done for. It is the zero Addr for work of
// our own.
func Requester(ctx context.Context) netip.Addr {
	addr, _ := ctx.Value(requesterKey{}).(netip.Addr)
	return addr
}
