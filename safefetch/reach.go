package safefetch

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// maxReach bounds the hosts of one [Fetcher.Reach].
const maxReach = 8

// Reach returns nil if at least one of hosts can be connected to, in the same way and under
// the same rules as for a fetch, and otherwise an error whose [Reason] has the cause for each
// host. It looks up the name, connects to port 443 and completes the TLS handshake, but sends
// no request. All hosts are tried at once, for at most Patience, or twice that with a proxy.
// The hosts must be the operator's choice: they need no places of the limits on fetches, so
// that other fetches cannot make Reach fail. At most 8 are tried.
//
// With a proxy, Reach also finds out whether names can be looked up without it: see
// Config.Proxy.
func (f *Fetcher) Reach(caller context.Context, hosts []string) error {
	hosts = hosts[:min(len(hosts), maxReach)]
	if len(hosts) == 0 {
		return errors.New("safefetch: no host to reach")
	}
	ctx, cancel := context.WithTimeout(caller, f.openTimeout())
	defer cancel()
	results := make(chan reachResult, len(hosts))
	for _, host := range hosts {
		go func() { results <- f.reachHost(ctx, host) }()
	}
	var reasons []string
	resolved, found := false, false
	for range hosts {
		r := <-results
		resolved = resolved || r.resolved
		if r.err == nil {
			found = true
			cancel() // the others end at once
			continue
		}
		reasons = append(reasons, strings.TrimPrefix(Reason(r.err), "safefetch: "+ErrRefused.Error()+": "))
	}
	if caller.Err() == nil {
		f.noLookup.Store(f.config.Proxy != nil && !resolved)
	}
	if found {
		return nil
	}
	return fail(ErrRefused, "%s", strings.Join(reasons, "; "))
}

// reachResult is the result of [Fetcher.Reach] for one host.
type reachResult struct {
	resolved bool // the name was looked up and has an address
	err      error
}

func (f *Fetcher) reachHost(ctx context.Context, host string) (r reachResult) {
	t := &target{trusted: true}
	if r.err = t.read("https://"+host+"/", false); r.err != nil {
		return r
	}
	c, err := f.open(ctx, t)
	if err == nil {
		c.end()
	}
	return reachResult{resolved: t.resolved, err: err}
}

// ReachableHost returns an error unless host can be passed to [Fetcher.Reach]: it must be the
// name of a public host in lowercase, without a port.
func ReachableHost(host string) error {
	t := &target{}
	if err := t.read("https://"+host+"/", false); err != nil || t.host != host || t.port != 443 || t.address.IsValid() || t.url.Path != "/" || t.url.RawQuery != "" {
		return fmt.Errorf("safefetch: %.100q is not the name of a public host in lowercase", host)
	}
	return nil
}
