package limit

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// clock is a time that a test sets.
type clock struct{ at time.Time }

func (c *clock) now() time.Time           { return c.at }
func (c *clock) advance(d time.Duration)  { c.at = c.at.Add(d) }
func newClock() *clock                    { return &clock{time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)} }
func (c *clock) rates(perHour int) *Rates { return NewRates(perHour, c.now) }
func taken(r *Rates, key string, n int) int {
	for i := range n {
		if r.Take(key) > 0 {
			return i
		}
	}
	return n
}

func TestRates(t *testing.T) {
	c := newClock()
	r := c.rates(60)
	if n := taken(r, "a", 100); n != 60 {
		t.Fatalf("%d at once, want 60", n)
	}
	wait := r.Take("a")
	if again := r.Take("a"); wait != time.Minute || again != wait {
		t.Errorf("the next must wait %s, or %s; want a minute", wait, again)
	}
	if n := taken(r, "b", 100); n != 60 {
		t.Errorf("another key: %d at once, want 60", n)
	}
	c.advance(wait - 1)
	if r.Take("a") != 1 {
		t.Error("a nanosecond too early, and it may happen")
	}
	c.advance(1)
	if n := taken(r, "a", 10); n != 1 {
		t.Errorf("after the wait %d may happen, want 1", n)
	}
	c.advance(10 * time.Minute)
	if n := taken(r, "a", 100); n != 10 {
		t.Errorf("after ten minutes %d, want 10", n)
	}
	c.advance(100 * time.Hour)
	if n := taken(r, "a", 100); n != 60 {
		t.Errorf("after a long time %d, want 60: what nobody used is not saved up", n)
	}
	c.advance(-time.Hour) // the clock was set back
	if wait := r.Take("a"); wait > 2*time.Hour {
		t.Errorf("with a clock that was set back it must wait %s", wait)
	}
}

// TestRatesReturn: what did not happen is not counted.
func TestRatesReturn(t *testing.T) {
	r := newClock().rates(6)
	for range 100 {
		if r.Take("a") > 0 {
			t.Fatal("an event that was returned counts")
		}
		r.Return("a")
	}
	r.Return("b")
	for _, key := range []string{"a", "b"} {
		if n := taken(r, key, 20); n != 6 {
			t.Errorf("%s: %d at once, want 6", key, n)
		}
	}
}

func TestRatesLeast(t *testing.T) {
	r := newClock().rates(0)
	if n := taken(r, "a", 3); n != 1 {
		t.Errorf("%d, want 1", n)
	}
}

// TestRatesForget: keys are forgotten when they owe nothing, and never are too many kept.
func TestRatesForget(t *testing.T) {
	c := newClock()
	r := c.rates(60)
	for i := range 1000 {
		r.Take(fmt.Sprint(i))
	}
	c.advance(2 * time.Minute)
	r.Take("new")
	if len(r.spent) != 1 {
		t.Errorf("%d keys are kept, want 1", len(r.spent))
	}
	for i := range maxRates + 500 {
		r.Take(fmt.Sprint(i))
	}
	if len(r.spent) > maxRates {
		t.Errorf("%d keys are kept, want at most %d", len(r.spent), maxRates)
	}
}

func TestRatesTogether(t *testing.T) {
	r := newClock().rates(60)
	var allowed atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() { allowed.Add(int64(taken(r, "a", 60))) })
	}
	all.Wait()
	if allowed.Load() != 60 {
		t.Errorf("%d were allowed, want 60", allowed.Load())
	}
}

func BenchmarkRates(b *testing.B) {
	r := NewRates(1<<30, time.Now)
	b.ReportAllocs()
	for b.Loop() {
		r.Take("192.0.2.1")
	}
}
