package doctor

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"gatehouse.example/safefetch"
)

// judge decides to which addresses an examination connects. The target is what a person named;
// every other name comes from a server. Without this rule, a server on the public internet could
// have the doctor ask what only the machine of that person reaches.
type judge struct {
	host    string // of the target
	allowed []string
	lookup  func(ctx context.Context, host string) ([]netip.Addr, error)
	connect func(ctx context.Context, network, address string) (net.Conn, error)

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
	return &judge{host: strings.ToLower(host), allowed: o.AllowHosts, lookup: lookup, connect: new(net.Dialer).DialContext}
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
	return race(ctx, addrs, func(ctx context.Context, a netip.Addr) (net.Conn, error) {
		return j.connect(ctx, network, net.JoinHostPort(a.String(), port))
	})
}

// nextAddress is how long an address has no other one beside it (RFC 8305 section 5).
const nextAddress = 250 * time.Millisecond

// race connects to the first address that answers, as browsers and other clients do: one that answers
// nothing, often of IPv6, must not use up the time of the others. The error is the last one.
func race(ctx context.Context, addrs []netip.Addr, connect func(context.Context, netip.Addr) (net.Conn, error)) (net.Conn, error) {
	type result struct {
		conn net.Conn
		err  error
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	results := make(chan result, len(addrs))
	next := time.NewTimer(0)
	defer next.Stop()
	var err error
	for begun, ended := 0, 0; ended < len(addrs); {
		select {
		case <-next.C:
			if begun == len(addrs) {
				continue
			}
			to := addrs[begun]
			begun++
			go func() {
				c, err := connect(ctx, to)
				results <- result{c, err}
			}()
			next.Reset(nextAddress)
		case r := <-results:
			ended++
			if r.err == nil {
				go func() {
					for range begun - ended {
						if late := <-results; late.err == nil {
							_ = late.conn.Close()
						}
					}
				}()
				return r.conn, nil
			}
			err = r.err
			next.Reset(0)
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
