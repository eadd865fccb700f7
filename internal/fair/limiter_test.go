package fair_test

import (
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"gatehouse.example/internal/fair"
)

// clock is a clock that tests set.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

func newClock() *clock { return &clock{time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)} }

func share(key string) fair.Bucket {
	return fair.Bucket{Key: key, Limit: fair.Limit{Burst: 10, Per: time.Minute}}
}

func TestLimiterIsSpentAndRefills(t *testing.T) {
	c := newClock()
	b := fair.NewLimiter(c.now)
	for i := range 10 {
		if wait := b.Take(1, share("a")); wait != 0 {
			t.Fatalf("event %d waits %v", i, wait)
		}
	}
	if wait := b.Take(1, share("a")); wait != 6*time.Second {
		t.Errorf("the eleventh waits %v, want 6s", wait)
	}
	if wait := b.Take(10, share("b")); wait != 0 {
		t.Errorf("another account waits %v", wait)
	}
	c.at = c.at.Add(6 * time.Second)
	if wait := b.Take(1, share("a")); wait != 0 {
		t.Errorf("after its refill it waits %v", wait)
	}
	c.at = c.at.Add(time.Hour)
	if wait := b.Take(10, share("a")); wait != 0 {
		t.Errorf("after a rest it waits %v", wait)
	}
	if wait := b.Take(1, share("a")); wait == 0 {
		t.Error("a long rest gave more than one burst")
	}
}

func TestLimiterTakesFromAllBucketsOrNone(t *testing.T) {
	b := fair.NewLimiter(newClock().now)
	b.Spend(10, share("spent"))
	if wait := b.Take(5, share("fresh"), share("spent")); wait != 30*time.Second {
		t.Errorf("it waits %v, want 30s", wait)
	}
	if wait := b.Take(10, share("fresh")); wait != 0 {
		t.Errorf("the other share was spent: wait %v", wait)
	}
}

func TestLimiterOfHeavyThings(t *testing.T) {
	c := newClock()
	b := fair.NewLimiter(c.now)
	if wait := b.Take(25, share("a")); wait != 0 {
		t.Errorf("more than a burst waits %v although nothing is owed", wait)
	}
	if wait := b.Wait(25, share("a")); wait != time.Minute {
		t.Errorf("the second waits %v, want until all is refilled", wait)
	}
	b.Spend(1000, share("a"))
	if wait := b.Wait(1, share("a")); wait != 6*time.Second {
		t.Errorf("one burst is the most that is owed, the wait is %v", wait)
	}
	c.at = c.at.Add(time.Minute)
	if wait := b.Take(10, share("a")); wait != 0 {
		t.Errorf("after the time of one burst the wait is %v", wait)
	}
}

func TestLimiterReturns(t *testing.T) {
	b := fair.NewLimiter(newClock().now)
	b.Take(10, share("a"))
	b.Return(3, share("a"))
	if wait := b.Take(3, share("a")); wait != 0 {
		t.Errorf("what was returned waits %v", wait)
	}
	if wait := b.Take(1, share("a")); wait == 0 {
		t.Error("more was returned than was taken")
	}
	b.Return(1000, share("c"))
	if wait := b.Take(10, share("c")); wait != 0 {
		t.Errorf("a return of what was never taken left a debt of %v", wait)
	}
}

func TestLimiterWhenTheClockIsSetBack(t *testing.T) {
	c := newClock()
	b := fair.NewLimiter(c.now)
	b.Take(10, share("a"))
	c.at = c.at.Add(-24 * time.Hour)
	if wait := b.Wait(1, share("a")); wait != 6*time.Second {
		t.Errorf("a clock set back makes the wait %v, want 6s as before", wait)
	}
	c.at = c.at.Add(time.Minute)
	if wait := b.Take(10, share("a")); wait != 0 {
		t.Errorf("after a minute on a clock that was set back, the wait is %v", wait)
	}
}

func TestLimiterByNetwork(t *testing.T) {
	b := fair.NewLimiter(newClock().now)
	each := fair.Limit{Burst: 10, Per: time.Minute}
	take := func(addr string) time.Duration {
		return b.Take(10, fair.ByNetwork(netip.MustParseAddr(addr), "sign-in", each)...)
	}
	for _, tt := range []struct {
		addr string
		ok   bool
	}{
		{"192.0.2.1", true},
		{"192.0.2.1", false}, // the address
		{"192.0.2.2", true},
		{"192.0.2.3", false}, // the /24 has twice as much
		{"198.51.100.1", true},
		{"2001:db8:0:1::1", true},
		{"2001:db8:0:1::2", false}, // the /64
		{"2001:db8:0:2::1", true},
		{"2001:db8:0:3::1", false},   // the /56 has twice as much
		{"2001:db8:0:100::1", true},  // another /56
		{"2001:db8:0:200::1", true},  // and another
		{"2001:db8:0:300::1", false}, // the /48 has four times as much
		{"2001:db8:1::1", true},
	} {
		if wait := take(tt.addr); (wait == 0) != tt.ok {
			t.Errorf("%s waits %v, want it let through: %v", tt.addr, wait, tt.ok)
		}
	}
}

// TestLimiterUnderManyKeys: a flood of keys resets no bucket, and affects few others.
func TestLimiterUnderManyKeys(t *testing.T) {
	b := fair.NewLimiter(newClock().now)
	b.Spend(10, share("the guesser"))
	for i := range 10_000 {
		b.Spend(10, share(fmt.Sprint("invented ", i)))
	}
	if b.Wait(1, share("the guesser")) == 0 {
		t.Error("a flood of other keys reset an account")
	}
	hit := 0
	for i := range 1000 {
		if b.Wait(1, share(fmt.Sprint("honest ", i))) > 0 {
			hit++
		}
	}
	if hit > 60 { // about twenty are to be expected
		t.Errorf("%d of 1000 honest accounts pay for others", hit)
	}
}

// TestSmallDebtsLowerNoGreatOne: among a hundred thousand keys are some that share a place with any
// bucket. What they spend and get back changes nothing of a greater debt there.
func TestSmallDebtsLowerNoGreatOne(t *testing.T) {
	b := fair.NewLimiter(newClock().now)
	b.Spend(10, share("the guesser"))
	for _, after := range []func(key fair.Bucket){func(fair.Bucket) {}, func(key fair.Bucket) { b.Return(1, key) }} {
		for i := range 100_000 {
			key := share(fmt.Sprint("invented ", i))
			b.Spend(1, key)
			after(key)
		}
		if wait := b.Wait(1, share("the guesser")); wait != 6*time.Second {
			t.Errorf("the guesser waits %v", wait)
		}
	}
}

func TestLimiterIsSafeTogether(t *testing.T) {
	b := fair.NewLimiter(newClock().now)
	let := make(chan int, 8)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			n := 0
			for range 100 {
				if b.Take(1, share("a")) == 0 {
					n++
				}
			}
			let <- n
		})
	}
	all.Wait()
	close(let)
	sum := 0
	for n := range let {
		sum += n
	}
	if sum != 10 {
		t.Errorf("%d were let through together, want 10", sum)
	}
}

func BenchmarkBudget(b *testing.B) {
	budget := fair.NewLimiter(time.Now)
	shares := fair.ByNetwork(netip.MustParseAddr("192.0.2.1"), "x", fair.Limit{Burst: 10, Per: time.Minute})
	b.ReportAllocs()
	for b.Loop() {
		budget.Take(1, shares...)
	}
}
