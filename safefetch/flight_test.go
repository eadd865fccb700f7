package safefetch_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse.example/safefetch"
)

// counting is a play that counts requests, and concurrent ones.
type counting struct {
	mu                      sync.Mutex
	requests, running, most int
	takes                   time.Duration
}

func (p *counting) play(c net.Conn) {
	if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
		return
	}
	p.change(1)
	defer p.change(-1)
	time.Sleep(p.takes)
	io.WriteString(c, ok("x"))
}

func (p *counting) change(by int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running += by
	p.requests += max(by, 0)
	p.most = max(p.most, p.running)
}

// seen returns the number of requests, and the greatest number of concurrent ones.
func (p *counting) seen() (requests, most int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requests, p.most
}

func TestOneFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &counting{takes: 900 * time.Millisecond}
		f := newStage(t, p.play).fetcher(t, safefetch.Config{})
		var wait sync.WaitGroup
		request := safefetch.Request{URL: "https://client.example.com/"}
		for range 50 {
			wait.Go(func() {
				r, err := f.Get(context.Background(), request)
				if err != nil || string(r.Body) != "x" {
					t.Errorf("%v: %s", r, safefetch.Reason(err))
					return
				}
				if r.Header.Get("ETag") != "" {
					t.Error("sees the header of another")
				}
				r.Body[0] = 'y' // what one caller does, no other sees
				r.Header.Set("ETag", "z")
			})
		}
		conditional := request
		conditional.IfNoneMatch = `"1"`
		wait.Go(func() { f.Get(context.Background(), conditional) })
		wait.Wait()
		if n, _ := p.seen(); n != 2 {
			t.Errorf("%d requests, want one and one that is conditional", n)
		}
		f.Get(context.Background(), request)
		if n, _ := p.seen(); n != 3 {
			t.Errorf("%d requests, want 3: nothing is kept", n)
		}
	})
}

// TestLeaving: some callers give up while others wait, and then all do.
func TestLeaving(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &counting{takes: time.Second}
		f := newStage(t, p.play).fetcher(t, safefetch.Config{Patience: 5 * time.Second})
		request := safefetch.Request{URL: "https://client.example.com/"}
		first, leave := context.WithCancel(context.Background())
		var wait sync.WaitGroup
		wait.Go(func() {
			_, err := f.Get(first, request)
			expectErr(t, "who left", err, context.Canceled)
		})
		synctest.Wait()
		wait.Go(func() {
			if took, _, err := clocked(f, request); err != nil || took != time.Second {
				t.Errorf("who stayed: %v after %v", err, took)
			}
		})
		synctest.Wait()
		leave()
		wait.Wait()
		if n, _ := p.seen(); n != 1 {
			t.Errorf("%d requests, want 1", n)
		}

		brief, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		defer cancel()
		_, err := f.Get(brief, request)
		expectErr(t, "alone", err, context.DeadlineExceeded)
		// Who comes after everybody left gets a fetch of his own, and an answer.
		if took, _, err := clocked(f, request); err != nil || took != time.Second {
			t.Errorf("who came later: %s after %v", safefetch.Reason(err), took)
		}
		_, err = f.Get(brief, request)
		expectErr(t, "too late", err, context.DeadlineExceeded)
		if n, _ := p.seen(); n != 3 {
			t.Errorf("%d requests, want none for a context that is over", n)
		}
	})
}

// TestBoardingLate: the end of a flight removes only that flight: the first one, which ignores
// its context, ends while a second one for the same request is running.
func TestBoardingLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lookups atomic.Int32
		f := newStage(t, says(ok(""))).fetcher(t, safefetch.Config{
			Patience: 5 * time.Second,
			LookupNetIP: func(context.Context, string, string) ([]netip.Addr, error) {
				lookups.Add(1)
				time.Sleep(time.Second)
				return parse("93.184.216.34"), nil
			}})
		request := safefetch.Request{URL: "https://client.example.com/"}
		ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		defer cancel()
		f.Get(ctx, request)
		var wait sync.WaitGroup
		for _, pause := range []time.Duration{0, 800 * time.Millisecond} {
			wait.Go(func() {
				time.Sleep(pause)
				if _, err := f.Get(context.Background(), request); err != nil {
					t.Error(safefetch.Reason(err))
				}
			})
		}
		wait.Wait()
		if n := lookups.Load(); n != 2 {
			t.Errorf("%d lookups, want 2", n)
		}
		for range 20 {
			f.Get(ctx, request)
		}
		synctest.Wait()
		if n := lookups.Load(); n != 2 {
			t.Errorf("%d lookups for contexts that are over", n-2)
		}
	})
}

// TestAbandonedFetchEnds: a fetch without callers closes its connection.
func TestAbandonedFetchEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var closed time.Time
		f := newStage(t, func(c net.Conn) {
			io.Copy(io.Discard, c)
			closed = time.Now()
		}).fetcher(t, safefetch.Config{})
		started := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		defer cancel()
		f.Get(ctx, safefetch.Request{URL: "https://client.example.com/"})
		synctest.Wait()
		if got := closed.Sub(started); got != 300*time.Millisecond {
			t.Errorf("the connection ended after %v", got)
		}
	})
}
