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

// maxDials bounds how many addresses of one name are tried: the owner of the name chooses
// them.
const maxDials = 4

// lookupAbsolute asks the resolver of the system. The dot at the end excludes the search list:
// an untrusted name must not become a name of the local network.
func lookupAbsolute(ctx context.Context, network, host string) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, network, host+".")
}

// resolve returns the addresses to dial, in order, and none if the proxy is to connect to the
// name. It checks all addresses of the name, not only those that will be dialled: a name with
// an internal address is not a public name (draft section 8.6: MUST NOT fetch what resolves to
// special-use addresses).
func (f *Fetcher) resolve(ctx context.Context, t *target) ([]netip.Addr, error) {
	addrs, err := f.lookup(ctx, t)
	t.resolved = err == nil && len(addrs) > 0
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

// mayAskByName reports whether the proxy may look a name up instead. The owner of a name could
// fail the lookup of this server and answer that of the proxy with an internal address, so a
// failed lookup is not enough, unless no name can be looked up without the proxy.
func (f *Fetcher) mayAskByName(t *target) bool {
	return f.config.Proxy != nil && !t.plain && !t.local && !t.address.IsValid() && !privateName(t.host) &&
		(t.trusted || f.config.ProxyByName || f.noLookup.Load())
}

func (f *Fetcher) lookup(ctx context.Context, t *target) ([]netip.Addr, error) {
	switch {
	case t.address.IsValid():
		return []netip.Addr{t.address}, nil
	case t.local: // RFC 6761 section 6.3: never looked up
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}, nil
	}
	if f.mayAskByName(t) { // the proxy needs some of the time
		half, cancel := context.WithTimeout(ctx, f.openTimeout()/2)
		defer cancel()
		ctx = half
	}
	return f.config.LookupNetIP(ctx, "ip", t.host)
}

// inTurns returns up to maxDials addresses, alternating between the two families, with the
// family first that the resolver prefers, so that a network without one of them costs one
// attempt (RFC 8305 section 4).
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

// openTimeout returns the time until a request must have been sent: Patience, and with a proxy
// twice that, because the proxy connects too.
func (f *Fetcher) openTimeout() time.Duration {
	if f.config.Proxy != nil {
		return 2 * f.config.Patience
	}
	return f.config.Patience
}

// open returns a connection to a target, with TLS unless the target is plain HTTP, within
// openTimeout.
func (f *Fetcher) open(ctx context.Context, t *target) (*connection, error) {
	ctx, cancel := context.WithTimeout(ctx, f.openTimeout())
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

// connection is a connection with the socket below its TLS layer, and its place at the
// address.
type connection struct {
	net.Conn
	socket net.Conn
	leave  func() // nil when no place is held
}

// end closes the socket without a TLS closure alert, which could block.
func (c *connection) end() {
	c.socket.Close()
	if c.leave != nil {
		c.leave()
	}
}

// connect dials one address after the other, each with an equal part of the remaining time.
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
	if t.trusted {
		return f.dialOrTunnel(ctx, t, to)
	}
	leave, err := f.gate.enterAddress(ctx, to)
	if err != nil {
		return nil, err
	}
	c, err := f.dialOrTunnel(ctx, t, to)
	if err != nil {
		leave()
		return nil, err
	}
	c.leave = leave
	return c, nil
}

// dialOrTunnel connects to an address, through the proxy if there is one. Loopback addresses are
// dialled directly, because to a proxy they mean its own machine.
func (f *Fetcher) dialOrTunnel(ctx context.Context, t *target, to netip.Addr) (*connection, error) {
	if f.config.Proxy != nil && !to.Unmap().IsLoopback() {
		return f.tunnel(ctx, t, to)
	}
	socket, err := f.dial(ctx, netip.AddrPortFrom(to, t.port))
	if err != nil {
		return nil, err
	}
	return &connection{Conn: socket, socket: socket}, nil
}

// dialTCP connects to an address that was checked. It gets no name, so nothing is looked up
// again.
func (f *Fetcher) dialTCP(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	dialer := net.Dialer{KeepAlive: -1, Control: f.control}
	return dialer.DialContext(ctx, "tcp", to.String())
}

// control checks the address to which a socket is about to connect: the last check before the
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
