package safefetch_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse.example/safefetch"
)

// TestReachAsksNothing: one host that answers suffices; it gets a handshake and no request.
func TestReachAsksNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var said []string
		stage := newStage(t, func(c net.Conn) {
			all, _ := io.ReadAll(c)
			mu.Lock()
			defer mu.Unlock()
			said = append(said, string(all))
		})
		f := stage.fetcher(t, safefetch.Config{LookupNetIP: func(ctx context.Context, network, host string) ([]netip.Addr, error) {
			if host == "client.example.com" {
				return parse("93.184.216.34"), nil
			}
			return failing(ctx, network, host)
		}})
		if err := f.Reach(t.Context(), []string{"gone.example.com", "client.example.com"}); err != nil {
			t.Fatal(safefetch.Reason(err))
		}
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if len(said) != 1 || said[0] != "" || stage.dialled()[0] != netip.MustParseAddrPort("93.184.216.34:443") {
			t.Errorf("said %q at %v", said, stage.dialled())
		}
	})
}

// TestReachEndsInTime: lookups, addresses and hosts that never answer take no longer than
// Patience, and the error has every reason.
func TestReachEndsInTime(t *testing.T) {
	hangs := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	for name, c := range map[string]safefetch.Config{
		"no DNS answers":  {LookupNetIP: func(ctx context.Context, _, _ string) ([]netip.Addr, error) { return nil, hangs(ctx) }},
		"nothing answers": {LookupNetIP: answers("93.184.216.34", "2606:2800:220:1::1")},
		"DNS says no":     {LookupNetIP: failing},
		"a private web":   {LookupNetIP: answers("10.0.0.1")},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := fetcher(t, c)
			f.SetDial(func(ctx context.Context, _ netip.AddrPort) (net.Conn, error) { return nil, hangs(ctx) })
			began := time.Now()
			err := f.Reach(t.Context(), []string{"client.example.com", "other.example.com"})
			if took := time.Since(began); !errors.Is(err, safefetch.ErrRefused) || took > time.Second || strings.Count(safefetch.Reason(err), "; ") < 1 {
				t.Errorf("%s: %s after %v", name, safefetch.Reason(err), took)
			}
		})
	}
}

// TestReachTrustsNobodyElse: a network that intercepts connections to all hosts, such as one
// with a sign-in page, does not make Reach succeed.
func TestReachTrustsNobodyElse(t *testing.T) {
	s := serve(t, func(http.ResponseWriter, *http.Request) {})
	s.config.InsecureAllowLoopback, s.config.LookupNetIP = false, answers("93.184.216.34")
	f := fetcher(t, s.config)
	f.SetDial(func(context.Context, netip.AddrPort) (net.Conn, error) {
		return net.Dial("tcp", s.Listener.Addr().String())
	})
	if err := f.Reach(t.Context(), []string{"other.example.com"}); err == nil || !strings.Contains(safefetch.Reason(err), "TLS with other.example.com") {
		t.Errorf("error %v", safefetch.Reason(err))
	}
	if err := f.Reach(t.Context(), []string{"client.example.com"}); err != nil {
		t.Error(safefetch.Reason(err))
	}
}

// TestReachNeedsNoPlace: Reach succeeds while other fetches hold every place, also those of
// its address.
func TestReachNeedsNoPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stage := newStage(t, func(c net.Conn) { io.Copy(io.Discard, c) })
		f := stage.fetcher(t, safefetch.Config{MaxConcurrent: 1, MaxPerHost: 1, Patience: time.Minute, Timeout: time.Hour})
		ctx, cancel := context.WithCancel(t.Context())
		var fetches sync.WaitGroup
		for range 2 {
			fetches.Go(func() { _, _ = f.Get(ctx, safefetch.Request{URL: "https://client.example.com/x"}) })
		}
		synctest.Wait()
		if err := f.Reach(t.Context(), []string{"client.example.com"}); err != nil {
			t.Error(safefetch.Reason(err))
		}
		cancel()
		fetches.Wait()
	})
}

func TestReachableHosts(t *testing.T) {
	for _, host := range []string{"client.example.com", "xn--bcher-kva.example"} {
		if err := safefetch.ReachableHost(host); err != nil {
			t.Error(err)
		}
	}
	for _, host := range []string{"", "Client.example.com", "client.example.com:443", "client.example.com:8443", "client.example.com/x", "10.0.0.1", "[::1]", "localhost", "wiki", "x.local", "https://a.example", "a@b.example", "*.example.com", "a.example?x", "bücher.example"} {
		if err := safefetch.ReachableHost(host); err == nil {
			t.Errorf("%q is accepted", host)
		}
	}
	f := fetcher(t, safefetch.Config{})
	if err := f.Reach(t.Context(), nil); err == nil {
		t.Error("nothing was reachResult")
	}
}
