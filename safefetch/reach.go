package safefetch

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// maxReach bounds the hosts of one [Fetcher.Reach].
const maxReach = 8

// Reach reports whether one of a few hosts can be connected to, in the same way and under the
// same rules as for a fetch: nil, or an error whose [Reason] says why none of them can. It
// looks up, connects, speaks TLS at port 443 to the end of the handshake, and asks nothing.
// All hosts are tried at once, for no longer than Patience, or twice that with a proxy. The
// hosts are the caller's, never a stranger's: they need no places, so that no flood of fetches
// fails them. At most 8 are tried.
//
// With a proxy it also learns whether names can be looked up here: see Config.ProxyByName.
func (f *Fetcher) Reach(caller context.Context, hosts []string) error {
	hosts = hosts[:min(len(hosts), maxReach)]
	if len(hosts) == 0 {
		return errors.New("safefetch: no host to reach")
	}
	ctx, cancel := context.WithTimeout(caller, f.opening())
	defer cancel()
	results := make(chan reached, len(hosts))
	for _, host := range hosts {
		go func() { results <- f.reachHost(ctx, host) }()
	}
	var reasons []string
	named, found := false, false
	for range hosts {
		r := <-results
		named = named || r.named
		if r.err == nil {
			found = true
			cancel() // the others end at once
			continue
		}
		reasons = append(reasons, strings.TrimPrefix(Reason(r.err), "safefetch: "+ErrRefused.Error()+": "))
	}
	if caller.Err() == nil {
		f.nameless.Store(f.config.Proxy != nil && !named)
	}
	if found {
		return nil
	}
	return fail(ErrRefused, "%s", strings.Join(reasons, "; "))
}

// reached is what came of one host.
type reached struct {
	named bool // the name has an address here
	err   error
}

func (f *Fetcher) reachHost(ctx context.Context, host string) (r reached) {
	t := &target{ours: true}
	if r.err = t.read("https://"+host+"/", false); r.err != nil {
		return r
	}
	c, err := f.open(ctx, t)
	if err == nil {
		c.end()
	}
	return reached{named: t.named, err: err}
}

// ReachableHost says why a host cannot be one of [Fetcher.Reach]: it is not the name of a public
// host in lowercase, without a port.
func ReachableHost(host string) error {
	t := &target{}
	if err := t.read("https://"+host+"/", false); err != nil || t.host != host || t.port != 443 || t.address.IsValid() || t.url.Path != "/" || t.url.RawQuery != "" {
		return fmt.Errorf("safefetch: %.100q is not the name of a public host in lowercase", host)
	}
	return nil
}
