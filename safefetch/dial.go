package safefetch

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"time"
)

// maxDials bounds how many addresses of one name are tried: a stranger decides how many
// there are, and where.
const maxDials = 4

// lookupAbsolute asks the resolver of the system. The dot at the end keeps the search
// list out of it: a name that a stranger wrote must not become a name of our network.
func lookupAbsolute(ctx context.Context, network, host string) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, network, host+".")
}

// resolve returns the addresses to dial, in order, and none if the proxy is asked by name. All that the name has are judged, not
// only those that will be dialled: a name that points inside with one of its addresses is
// not a public name. (Draft section 8.6: MUST NOT fetch what resolves to special-use
// addresses.)
func (f *Fetcher) resolve(ctx context.Context, t *target) ([]netip.Addr, error) {
	addrs, err := f.lookup(ctx, t)
	t.named = err == nil && len(addrs) > 0
	if err != nil && f.mayAskByName(t) {
		return nil, nil
	}
	if err != nil {
		return nil, fail(ErrRefused, "lookup of %s: %v", t.host, err)
	}
	for _, a := range addrs {
		if why := f.refuses(a, t.plain); why != "" {
			return nil, fail(ErrRefused, "%s has the address %s: %s", t.host, a, why)
		}
	}
	if len(addrs) == 0 {
		return nil, fail(ErrRefused, "%s has no address", t.host)
	}
	if f.config.ProxyByName && f.mayAskByName(t) && !addrs[0].Unmap().IsLoopback() {
		return nil, nil
	}
	return inTurns(addrs), nil
}

// mayAskByName reports whether a proxy looks a name up instead of us. A stranger owns what is
// said about his name, and could say nothing to us and an address inside to the proxy: one
// failed lookup is not enough, unless nothing can be looked up here.
func (f *Fetcher) mayAskByName(t *target) bool {
	return f.config.Proxy != nil && !t.plain && !t.local && !t.address.IsValid() && !privateName(t.host) &&
		(t.ours || f.config.ProxyByName || f.nameless.Load())
}

func (f *Fetcher) lookup(ctx context.Context, t *target) ([]netip.Addr, error) {
	switch {
	case t.address.IsValid():
		return []netip.Addr{t.address}, nil
	case t.local: // RFC 6761 section 6.3: never looked up
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}, nil
	}
	if f.mayAskByName(t) { // the proxy needs some of the time
		half, cancel := context.WithTimeout(ctx, f.opening()/2)
		defer cancel()
		ctx = half
	}
	return f.config.LookupNetIP(ctx, "ip", t.host)
}

// inTurns takes addresses of the two families in turns, beginning with the one that the
// resolver prefers, so that a network without one of them costs one attempt (RFC 8305
// section 4).
func inTurns(addrs []netip.Addr) []netip.Addr {
	var families [2][]netip.Addr
	for _, a := range addrs {
		a = a.Unmap()
		i := 0
		if a.Is4() != addrs[0].Unmap().Is4() {
			i = 1
		}
		if len(families[i]) < maxDials && !slices.Contains(families[i], a) {
			families[i] = append(families[i], a)
		}
	}
	var turns []netip.Addr
	for i := range maxDials {
		for _, family := range families {
			if i < len(family) && len(turns) < maxDials {
				turns = append(turns, family[i])
			}
		}
	}
	return turns
}

// opening is how long it may take until a request can be sent. A proxy does by itself what a
// host is given that time for.
func (f *Fetcher) opening() time.Duration {
	if f.config.Proxy != nil {
		return 2 * f.config.Patience
	}
	return f.config.Patience
}

// open returns a connection, with TLS if there is to be some, before the patience ends.
func (f *Fetcher) open(ctx context.Context, t *target) (*connection, error) {
	ctx, cancel := context.WithTimeout(ctx, f.opening())
	defer cancel()
	addrs, err := f.resolve(ctx, t)
	if err != nil {
		return nil, err
	}
	c, err := f.connect(ctx, t, addrs)
	if err != nil || t.plain {
		return c, err
	}
	secure := tls.Client(c.Conn, f.tlsConfig(t))
	if err := secure.HandshakeContext(ctx); err != nil {
		c.end()
		return nil, fail(ErrRefused, "TLS with %s: %v", t.host, err)
	}
	c.Conn = secure
	return c, nil
}

// connection is what is spoken through, the socket below it, and a place at its address.
type connection struct {
	net.Conn
	socket net.Conn
	leave  func() // nil when no place is held
}

// end closes the socket without a word: TLS would wait for somebody to hear its farewell.
func (c *connection) end() {
	c.socket.Close()
	if c.leave != nil {
		c.leave()
	}
}

// connect dials one address after the other, each with an equal share of the time that is
// left.
func (f *Fetcher) connect(ctx context.Context, t *target, addrs []netip.Addr) (*connection, error) {
	if len(addrs) == 0 {
		return f.tunnel(ctx, t, netip.Addr{})
	}
	var reasons []string
	var last error
	for i, a := range addrs {
		c, err := f.attempt(ctx, t, a, len(addrs)-i)
		if err == nil {
			return c, nil
		}
		last, reasons = err, append(reasons, Reason(err))
	}
	if errors.Is(last, ErrBusy) {
		return nil, last
	}
	return nil, fail(ErrRefused, "%s", strings.Join(reasons, "; "))
}

func (f *Fetcher) attempt(ctx context.Context, t *target, to netip.Addr, left int) (*connection, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)/time.Duration(left))
		defer cancel()
	}
	if t.ours {
		return f.way(ctx, t, to)
	}
	leave, err := f.gate.reach(ctx, to)
	if err != nil {
		return nil, err
	}
	c, err := f.way(ctx, t, to)
	if err != nil {
		leave()
		return nil, err
	}
	c.leave = leave
	return c, nil
}

// way connects to an address, through the proxy if there is one. Loopback is this machine,
// which no proxy is on the way to.
func (f *Fetcher) way(ctx context.Context, t *target, to netip.Addr) (*connection, error) {
	if f.config.Proxy != nil && !to.Unmap().IsLoopback() {
		return f.tunnel(ctx, t, to)
	}
	socket, err := f.dial(ctx, netip.AddrPortFrom(to, t.port))
	if err != nil {
		return nil, err
	}
	return &connection{Conn: socket, socket: socket}, nil
}

// dialTCP connects to an address that has been judged. It holds no name, so nothing can
// be looked up again.
func (f *Fetcher) dialTCP(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	dialer := net.Dialer{KeepAlive: -1, Control: f.control}
	return dialer.DialContext(ctx, "tcp", to.String())
}

// control looks at what the socket is about to connect to, as the last one before the
// kernel.
func (f *Fetcher) control(network, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return fail(ErrRefused, "a socket of %s to %q", network, address)
	}
	if why := f.refuses(to.Addr(), false); why != "" {
		return fail(ErrRefused, "a socket of %s to %s: %s", network, address, why)
	}
	return nil
}
