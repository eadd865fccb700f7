package safefetch

import (
	"context"
	"net"
	"net/netip"
	"time"
)

// Refusal returns why an address is refused, or "".
var Refusal = refusal

// SetDial replaces the network by d.
func (f *Fetcher) SetDial(d func(context.Context, netip.AddrPort) (net.Conn, error)) { f.dial = d }

// SetJitter replaces the random jitter of refusals.
func (f *Fetcher) SetJitter(j func(time.Duration) time.Duration) { f.jitter = j }

// Dial connects without the checks before the dial, so that only that of the socket is left.
func (f *Fetcher) Dial(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	return f.dialTCP(ctx, to)
}

// Share reports whether two requests that may be sent share one fetch.
func (f *Fetcher) Share(a, b Request) (bool, error) {
	one, err := f.target(a)
	if err != nil {
		return false, err
	}
	other, err := f.target(b)
	if err != nil {
		return false, err
	}
	return one.key() == other.key(), nil
}
