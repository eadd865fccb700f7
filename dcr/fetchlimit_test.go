package dcr_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gatehouse.example/dcr"
	"gatehouse.example/internal/fair"
	"gatehouse.example/internal/webtest"
	"gatehouse.example/safefetch"
)

// of is the context of a request from an address.
func of(t testing.TB, addr string) context.Context {
	return fair.WithRequester(t.Context(), netip.MustParseAddr(addr))
}

// TestWhoAsksInVainPays: one requester causes a bounded number of failed fetches, whether
// from many names or from one host. Others are served meanwhile, also from that host.
func TestWhoAsksInVainPays(t *testing.T) {
	for name, test := range map[string]struct {
		host string
		from []string
		most int32
	}{
		"a wildcard":                   {"h%d.example.org", []string{"192.0.2.1"}, 60},
		"a wildcard, from a network":   {"h%d.example.org", []string{"192.0.2.1", "192.0.2.2", "192.0.2.3"}, 120},
		"one host":                     {"victim.example.com", []string{"192.0.2.1"}, 15},
		"one host, from a network":     {"victim.example.com", []string{"2001:db8::1", "2001:db8:0:1::1", "2001:db8:0:100::1"}, 15},
		"one host, from two networks":  {"victim.example.com", []string{"192.0.2.1", "198.51.100.1"}, 30},
		"one host, from many networks": {"victim.example.com", []string{"192.0.2.1", "198.51.100.1", "203.0.113.1", "2001:db8::1"}, 30},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReader(t, nil)
			var asked atomic.Int32
			r.web.Serve("*", func(w http.ResponseWriter, q *http.Request) {
				asked.Add(1)
				http.NotFound(w, q)
			})
			for i := range 200 {
				host := strings.ReplaceAll(test.host, "%d", fmt.Sprint(i))
				_, _ = r.Resolve(of(t, test.from[i%len(test.from)]), r.web.URL(host, fmt.Sprint("/", i)))
			}
			if n := asked.Load(); n != test.most {
				t.Errorf("%d fetches, want %d", n, test.most)
			}
			host := strings.ReplaceAll(test.host, "%d", "")
			if test.most == 30 {
				host = "another.example.com" // this one is left alone for now
			}
			if _, err := r.Resolve(of(t, "2001:db8:ffff::1"), r.publish(host, nil)); err != nil {
				t.Errorf("another requester: %v", err)
			}
		})
	}
}

// TestNewDocumentsPayToo: fetches of valid documents at ever new addresses are limited too.
func TestNewDocumentsPayToo(t *testing.T) {
	r := newReader(t, nil)
	var asked atomic.Int32
	r.web.Serve("*", func(w http.ResponseWriter, q *http.Request) {
		asked.Add(1)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(published("https://"+q.Host+q.URL.Path, nil)))
	})
	for i := range 300 {
		_, _ = r.Resolve(of(t, "192.0.2.1"), r.web.URL(fmt.Sprintf("h%d.example.org", i), "/c.json"))
	}
	if n := asked.Load(); n != 120 {
		t.Errorf("%d fetches, want 120", n)
	}
	if _, err := r.Resolve(of(t, "198.51.100.1"), r.publish("client.example.com", nil)); err != nil {
		t.Errorf("another requester: %v", err)
	}
}

// TestNegativeAnswersRest: after any failure an address is not fetched again for
// failureTime, for any requester, and the memory for failures is bounded.
func TestNegativeAnswersRest(t *testing.T) {
	for name, status := range map[string]int{"not found": 404, "broken": 500} {
		t.Run(name, func(t *testing.T) {
			r := newReader(t, nil)
			id := r.web.URL("client.example.com", "/client.json")
			r.web.Serve(id, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
			_, first := r.Resolve(of(t, "192.0.2.1"), id)
			for i := range 20 {
				if _, err := r.Resolve(of(t, fmt.Sprintf("198.51.%d.1", i)), id); err == nil || err.Error() != first.Error() {
					t.Errorf("%v, want %v", err, first)
				}
			}
			r.clock.advance(5*time.Second - 1)
			_, _ = r.Resolve(of(t, "192.0.2.1"), id)
			if n := r.web.Hits(id); n != 1 {
				t.Errorf("asked %d times within five seconds", n)
			}
			r.clock.advance(1)
			_, _ = r.Resolve(of(t, "192.0.2.1"), id)
			if n := r.web.Hits(id); n != 2 {
				t.Errorf("asked %d times after five seconds", n)
			}
			r.clock.advance(-time.Hour)
			_, _ = r.Resolve(of(t, "192.0.2.1"), id)
			if n := r.web.Hits(id); n != 3 {
				t.Errorf("asked %d times after the clock was set back", n)
			}
		})
	}
}

// TestSharedReadingWaitsForNobodyElse: a network with many waiting fetches asks for a
// document first; another network that asks for it does not wait for those fetches.
func TestSharedReadingWaitsForNobodyElse(t *testing.T) {
	web := webtest.New(t)
	release := make(chan struct{})
	var held atomic.Int32
	web.Serve("*", func(w http.ResponseWriter, q *http.Request) {
		held.Add(1)
		select {
		case <-release:
		case <-q.Context().Done():
		}
		w.WriteHeader(http.StatusBadGateway)
	})
	patient := web.Fetcher(func(c *safefetch.Config) { c.Timeout, c.Patience = time.Hour, time.Hour })
	r := reader{web: web, fixture: newFixture(t, func(c *dcr.Config) {
		c.Documents, c.Fetcher = dcr.Documents{Trust: dcr.TrustAsk}, patient
	})}
	done := make(chan struct{})
	asks := func(id string) {
		go func() {
			_, _ = r.Resolve(of(t, "192.0.2.1"), id)
			done <- struct{}{}
		}()
	}
	const flood = 20
	for i := range flood {
		asks(r.web.URL(fmt.Sprintf("h%d.example.org", i), "/c.json"))
	}
	for held.Load() < 8 {
		time.Sleep(time.Millisecond)
	}
	id := r.publish("client.example.com", nil)
	asks(id)
	for !r.Reading(id) {
		time.Sleep(time.Millisecond)
	}
	ctx, cancel := context.WithTimeout(of(t, "198.51.100.1"), 20*time.Second)
	defer cancel()
	if _, err := r.Resolve(ctx, id); err != nil {
		t.Errorf("who comes from elsewhere: %v", err)
	}
	close(release)
	for range flood + 1 {
		<-done
	}
}

// TestDeadlineIsUnreachable: a caller whose context ends gets ErrUnreachable, and the next
// caller gets the document of the fetch that was started.
func TestDeadlineIsUnreachable(t *testing.T) {
	r := newReader(t, nil)
	id := r.web.URL("client.example.com", "/client.json")
	release := make(chan struct{})
	r.web.Serve(id, func(w http.ResponseWriter, _ *http.Request) {
		<-release
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(published(id, nil)))
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err := r.Resolve(ctx, id)
	if !errors.Is(err, dcr.ErrUnreachable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want both", err)
	}
	close(release)
	for r.Reading(id) {
		time.Sleep(time.Millisecond)
	}
	r.resolve(t, id)
	if n := r.web.Hits(id); n != 1 {
		t.Errorf("read %d times", n)
	}
}
