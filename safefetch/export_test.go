package safefetch

import (
	"context"
	"net"
	"net/netip"
	"time"
)

// Refusal is the judgement of the table.
var Refusal = refusal

// SetDial puts d in the place of the network.
func (f *Fetcher) SetDial(d func(context.Context, netip.AddrPort) (net.Conn, error)) { f.dial = d }

// SetJitter makes the time of refusals exact.
func (f *Fetcher) SetJitter(j func(time.Duration) time.Duration) { f.jitter = j }

// Dial connects without judging first, so that only the last check is left.
func (f *Fetcher) Dial(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	return f.dialTCP(ctx, to)
}
