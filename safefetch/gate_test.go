package safefetch_test

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse.example/safefetch"
)

// scattered is a resolver with another address for each name.
func scattered(_ context.Context, _, host string) ([]netip.Addr, error) {
	sum := sha256.Sum256([]byte(host))
	return []netip.Addr{netip.AddrFrom4([4]byte{93, 184, sum[0], sum[1]})}, nil
}

// TestBounds fills the gate: fetches run, wait, or fail with ErrBusy.
func TestBounds(t *testing.T) {
	for name, c := range map[string]struct {
		url    string
		config safefetch.Config
		most   int
		served int
	}{
		"one host": {"https://client.example.com/%d", safefetch.Config{MaxPerHost: 2}, 2, 10},
		"in all":   {"https://h%d.example.org/", safefetch.Config{MaxConcurrent: 3, LookupNetIP: scattered}, 3, 15},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &counting{takes: 900 * time.Millisecond}
				var mu sync.Mutex
				var served, busy int
				reported := map[bool]int{} // by whether it was too busy
				c.config.Observe = func(err error, took time.Duration) {
					mu.Lock()
					defer mu.Unlock()
					reported[errors.Is(err, safefetch.ErrBusy) && took == 0]++
				}
				f := newStage(t, p.play).fetcher(t, c.config)
				var wait sync.WaitGroup
				for i := range 40 {
					wait.Go(func() {
						took, _, err := clocked(f, safefetch.Request{URL: fmt.Sprintf(c.url, i)})
						mu.Lock()
						defer mu.Unlock()
						switch {
						case err == nil:
							served++
						case errors.Is(err, safefetch.ErrBusy) && took == 0:
							busy++
						default:
							t.Errorf("%s after %v", safefetch.Reason(err), took)
						}
					})
				}
				wait.Wait()
				_, most := p.seen()
				if most != c.most || served != c.served || busy != 40-c.served {
					t.Errorf("%d at a time, %d served, %d turned away, want %d, %d, %d", most, served, busy, c.most, c.served, 40-c.served)
				}
				if reported[true] != busy || reported[false] != served {
					t.Errorf("reported as too busy, and not: %v", reported)
				}
				// All places are free again.
				if _, _, err := clocked(f, safefetch.Request{URL: fmt.Sprintf(c.url, 1)}); err != nil {
					t.Error(safefetch.Reason(err))
				}
			})
		})
	}
}

// TestBusyAddressIsReportedOnce: of twelve fetches to one address, four are served. The others have
// begun when they find that it has no place for them, or get one too late.
func TestBusyAddressIsReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &counting{takes: 2900 * time.Millisecond}
		var mu sync.Mutex
		reported := map[error]int{}
		f := newStage(t, p.play).fetcher(t, safefetch.Config{MaxConcurrent: 8, Patience: 3 * time.Second, Observe: func(err error, _ time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			var known *safefetch.Error
			if errors.As(err, &known) {
				err = known.Err
			}
			reported[err]++
		}})
		var wait sync.WaitGroup
		for i := range 12 {
			wait.Go(func() {
				_, _ = f.Get(context.Background(), safefetch.Request{URL: fmt.Sprintf("https://h%d.example.org/", i)})
			})
		}
		wait.Wait()
		if reported[nil] != 4 || reported[safefetch.ErrRefused]+reported[safefetch.ErrBusy] != 8 {
			t.Errorf("reported %v", reported)
		}
	})
}

// TestGivingUpFreesPlaces: a fetch that waits for a place among all is given up, and another
// one behind it at the same host begins.
func TestGivingUpFreesPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &counting{takes: time.Second}
		f := newStage(t, p.play).fetcher(t, safefetch.Config{MaxConcurrent: 1, MaxPerHost: 1, Patience: 5 * time.Second})
		var wait sync.WaitGroup
		ask := func(ctx context.Context, url string, want error) {
			wait.Go(func() {
				_, err := f.Get(ctx, safefetch.Request{URL: url})
				expectErr(t, url, err, want)
			})
			synctest.Wait()
		}
		brief, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		defer cancel()
		ask(context.Background(), "https://a.example.org/", nil)
		ask(brief, "https://b.example.org/1", context.DeadlineExceeded)
		ask(context.Background(), "https://b.example.org/2", nil)
		wait.Wait()
	})
}

// TestWaitingTakesFromTheTimeout: of three fetches with one place, the second gets it too late,
// and the third not at all or in its last moment.
func TestWaitingTakesFromTheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &counting{takes: 4 * time.Second}
		f := newStage(t, p.play).fetcher(t, safefetch.Config{MaxPerHost: 1, Patience: 5 * time.Second})
		var served atomic.Int32
		var wait sync.WaitGroup
		for i := range 3 {
			wait.Go(func() {
				took, _, err := clocked(f, safefetch.Request{URL: fmt.Sprint("https://client.example.com/", i)})
				if err == nil && took == 4*time.Second {
					served.Add(1)
				} else if took != 5*time.Second || !errors.Is(err, safefetch.ErrRefused) && !errors.Is(err, safefetch.ErrBusy) {
					t.Errorf("%s after %v", safefetch.Reason(err), took)
				}
			})
		}
		wait.Wait()
		if served.Load() != 1 {
			t.Errorf("%d were served, want 1", served.Load())
		}
	})
}

// from returns the context of a fetch for an address.
func from(addr string) context.Context {
	return safefetch.WithRequester(context.Background(), netip.MustParseAddr(addr))
}

// holding returns a stage on which every host is silent until it is released, except for the
// given ones, which answer at once.
type holding struct {
	stage   *stage
	release chan struct{}
	held    atomic.Int32
}

func newHolding(t *testing.T) *holding {
	h := &holding{release: make(chan struct{})}
	h.stage = newStage(t, func(c net.Conn) {
		if h.held.Add(1); c.(interface{ ConnectionState() tls.ConnectionState }).ConnectionState().ServerName == "client.example.com" {
			h.held.Add(-1)
			says(ok("x"))(c)
			return
		}
		select {
		case <-h.release:
		case <-time.After(time.Hour):
		}
	})
	return h
}

// TestOneRequesterCannotHoldAllFetches: one requester fetches from 200 hosts that never
// answer, and so does a whole network. Another requester is served at once, while all of these
// fetches are still running.
func TestOneRequesterCannotHoldAllFetches(t *testing.T) {
	for name, c := range map[string]struct {
		floods []string
		held   int32
		honest string
	}{
		"one address":         {[]string{"192.0.2.1"}, 8, "192.0.2.2"},
		"a network":           {[]string{"192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"}, 16, "198.51.100.1"},
		"one customer's IPv6": {[]string{"2001:db8:0:1::1", "2001:db8:0:1::2", "2001:db8:0:2::1", "2001:db8:0:100::1"}, 16, "2001:db8:1::1"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHolding(t)
				f := h.stage.fetcher(t, safefetch.Config{Patience: time.Hour, Timeout: time.Hour, LookupNetIP: scattered})
				var wait sync.WaitGroup
				for i := range 200 {
					wait.Go(func() {
						_, err := f.Get(from(c.floods[i%len(c.floods)]), safefetch.Request{URL: fmt.Sprintf("https://h%d.example.org/", i)})
						if err == nil {
							t.Error("a host that never answers did")
						}
					})
				}
				synctest.Wait()
				if n := h.held.Load(); n != c.held {
					t.Errorf("they hold %d places, want %d", n, c.held)
				}
				took, _, err := clocked(f, safefetch.Request{URL: "https://client.example.com/"}, c.honest)
				if err != nil || took != 0 {
					t.Errorf("who comes from elsewhere: %s after %v", safefetch.Reason(err), took)
				}
				close(h.release)
				wait.Wait()
			})
		})
	}
}

// TestSharedFetchWaitsForNobodyElse: a requester whose network has many waiting fetches asks
// for a document first. A requester of another network gets it at once.
func TestSharedFetchWaitsForNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHolding(t)
		f := h.stage.fetcher(t, safefetch.Config{Patience: time.Hour, Timeout: time.Hour, LookupNetIP: scattered})
		var wait sync.WaitGroup
		for i := range 20 {
			wait.Go(func() {
				_, _ = f.Get(from("192.0.2.1"), safefetch.Request{URL: fmt.Sprintf("https://h%d.example.org/", i)})
			})
		}
		synctest.Wait()
		document := safefetch.Request{URL: "https://client.example.com/"}
		wait.Go(func() {
			if took, _, err := clocked(f, document, "192.0.2.1"); err != nil || took != time.Second {
				t.Errorf("who waited for the other's turn: %s after %v", safefetch.Reason(err), took)
			}
		})
		synctest.Wait()
		time.Sleep(time.Second)
		if took, _, err := clocked(f, document, "198.51.100.1"); err != nil || took != 0 {
			t.Errorf("who comes from elsewhere: %s after %v", safefetch.Reason(err), took)
		}
		close(h.release)
		wait.Wait()
	})
}

// TestOneAddressIsNotFlooded: a wildcard of names at one address is one destination.
func TestOneAddressIsNotFlooded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHolding(t)
		f := h.stage.fetcher(t, safefetch.Config{Patience: time.Hour, Timeout: time.Hour})
		var wait sync.WaitGroup
		for i := range 64 {
			wait.Go(func() {
				_, _ = f.Get(from(fmt.Sprintf("192.0.%d.1", i)), safefetch.Request{URL: fmt.Sprintf("https://h%d.example.org/", i)})
			})
		}
		synctest.Wait()
		if n := h.held.Load(); n != 16 {
			t.Errorf("%d connections to one address, want 16", n)
		}
		close(h.release)
		wait.Wait()
	})
}

// TestLanesShareThePlaces: with all places held by one lane, the next place is another's.
func TestLanesShareThePlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &counting{takes: 900 * time.Millisecond}
		f := newStage(t, p.play).fetcher(t, safefetch.Config{MaxConcurrent: 4, LookupNetIP: scattered})
		var wait sync.WaitGroup
		for i := range 16 {
			wait.Go(func() {
				_, _ = f.Get(from(fmt.Sprintf("192.0.%d.1", i)), safefetch.Request{URL: fmt.Sprintf("https://h%d.example.org/", i), Lane: "new"})
			})
		}
		synctest.Wait()
		took, _, err := clocked(f, safefetch.Request{URL: "https://client.example.com/", Lane: "known"}, "198.51.100.1")
		if err != nil || took != 1800*time.Millisecond {
			t.Errorf("the other lane: %s after %v", safefetch.Reason(err), took)
		}
		wait.Wait()
	})
}
