package doctor

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"gatehouse.example/safefetch"
)

// judge decides to which addresses an examination connects. The target is what a person named;
// every other name comes from a server. Without this rule, a server on the public internet could
// have the doctor ask what only the machine of that person reaches.
type judge struct {
	host    string // of the target
	allowed []string
	lookup  func(ctx context.Context, host string) ([]netip.Addr, error)

	mu      sync.Mutex
	settled bool
	private bool         // the target has a private address
	own     []netip.Addr // of the target
}

// forbidden is the error for an address that may not be asked.
type forbidden struct {
	host, why string
}

func (f *forbidden) Error() string {
	return fmt.Sprintf("%s was not asked: %s; --allow-host %s permits it", clean(f.host), f.why, clean(f.host))
}

func newJudge(host string, o Options) *judge {
	lookup := o.Lookup
	if lookup == nil {
		lookup = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}
	}
	return &judge{host: strings.ToLower(host), allowed: o.AllowHosts, lookup: lookup}
}

// dial looks a name up, judges its addresses, and connects to one that was judged.
func (j *judge) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	addrs, err := j.addresses(ctx, host)
	if err != nil {
		return nil, err
	}
	var dialer net.Dialer
	for _, a := range addrs {
		var c net.Conn
		if c, err = dialer.DialContext(ctx, network, net.JoinHostPort(a.String(), port)); err == nil {
			return c, nil
		}
	}
	return nil, err
}

// addresses returns the addresses of a name that may be asked, at least one.
func (j *judge) addresses(ctx context.Context, host string) ([]netip.Addr, error) {
	addrs, err := j.resolve(ctx, host)
	if err != nil {
		return nil, err
	}
	if err := j.settle(ctx, host, addrs); err != nil {
		return nil, err
	}
	if same(host, j.host) || slices.ContainsFunc(j.allowed, func(h string) bool { return same(h, host) }) {
		return j.steady(host, addrs)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.others(host, addrs)
}

func (j *judge) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a.Unmap()}, nil
	}
	if loopback(host) { // RFC 6761 section 6.3: never looked up
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}, nil
	}
	addrs, err := j.lookup(ctx, host)
	if err != nil {
		return nil, err
	}
	if len(addrs) == 0 {
		return nil, &net.DNSError{Err: "no address", Name: host, IsNotFound: true}
	}
	const most = 8
	for i, a := range addrs {
		addrs[i] = a.Unmap()
	}
	return addrs[:min(len(addrs), most)], nil
}

// settle remembers the addresses of the target: they decide what else may be asked.
func (j *judge) settle(ctx context.Context, host string, addrs []netip.Addr) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.settled {
		return nil
	}
	if !same(host, j.host) {
		var err error
		if addrs, err = j.resolve(ctx, j.host); err != nil {
			return err
		}
	}
	j.settled, j.own = true, addrs
	j.private = slices.ContainsFunc(addrs, func(a netip.Addr) bool { return safefetch.SpecialAddress(a) != "" })
	return nil
}

// steady keeps a public target from becoming a private one between two lookups.
func (j *judge) steady(host string, addrs []netip.Addr) ([]netip.Addr, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.private || !same(host, j.host) {
		return addrs, nil
	}
	return publicOnly(host, addrs)
}

func (j *judge) others(host string, addrs []netip.Addr) ([]netip.Addr, error) {
	if !j.private {
		return publicOnly(host, addrs)
	}
	var own []netip.Addr
	for _, a := range addrs {
		if slices.Contains(j.own, a) || j.loopback() && (a == netip.IPv6Loopback() || a == netip.AddrFrom4([4]byte{127, 0, 0, 1})) {
			own = append(own, a)
		}
	}
	if len(own) == 0 {
		return nil, &forbidden{host, fmt.Sprintf("it has the address %s, which is not one of %s", addrs[0], clean(j.host))}
	}
	return own, nil
}

func (j *judge) loopback() bool { return slices.ContainsFunc(j.own, netip.Addr.IsLoopback) }

// publicOnly refuses a name with at least one address that is not public.
func publicOnly(host string, addrs []netip.Addr) ([]netip.Addr, error) {
	for _, a := range addrs {
		if why := safefetch.SpecialAddress(a); why != "" {
			return nil, &forbidden{host, fmt.Sprintf("it has the address %s: %s", a, why)}
		}
	}
	return addrs, nil
}

// same compares host names, as the name system does.
func same(a, b string) bool {
	return strings.EqualFold(strings.TrimSuffix(a, "."), strings.TrimSuffix(b, "."))
}
