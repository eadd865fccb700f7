package fair_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"

	"gatehouse.example/internal/fair"
)

// requests enters requests in a queue one after the other, so that their order is known.
type requests struct {
	t     *testing.T
	q     *fair.Queue
	order []string // who got a place
	leave map[string]func()
	err   map[string]error
}

func newRequests(t *testing.T, q *fair.Queue) *requests {
	return &requests{t: t, q: q, leave: map[string]func(){}, err: map[string]error{}}
}

func (c *requests) enter(ctx context.Context, name, lane, addr string) {
	go func() {
		leave, err := c.q.Enter(ctx, lane, netip.MustParseAddr(addr))
		if c.err[name] = err; err == nil {
			c.order = append(c.order, name)
			c.leave[name] = leave
		}
	}()
	synctest.Wait()
}

// finish gives back all places, in the order in which requests got them.
func (c *requests) finish() {
	for i := 0; i < len(c.order); i++ {
		c.leave[c.order[i]]()
		synctest.Wait()
	}
}

func (c *requests) want(order ...string) {
	c.t.Helper()
	if !slices.Equal(c.order, order) {
		c.t.Errorf("places went to %q, want %q", c.order, order)
	}
}

func TestQueueServesNetworksInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ctx := newRequests(t, fair.NewQueue(1, 100)), context.Background()
		for i := range 6 {
			c.enter(ctx, fmt.Sprint("flood ", i), "", "192.0.2.1")
		}
		c.enter(ctx, "honest 0", "", "198.51.100.1")
		c.enter(ctx, "honest 1", "", "198.51.100.1")
		c.finish()
		c.want("flood 0", "honest 0", "flood 1", "honest 1", "flood 2", "flood 3", "flood 4", "flood 5")
	})
}

// TestQueueCountsWideNetworks: many addresses of one network are one network.
func TestQueueCountsWideNetworks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ctx := newRequests(t, fair.NewQueue(1, 100)), context.Background()
		for i := range 5 {
			c.enter(ctx, fmt.Sprint("flood ", i), "", fmt.Sprint("2001:db8:0:", i, "::1"))
		}
		c.enter(ctx, "honest", "", "198.51.100.1")
		c.finish()
		if got := slices.Index(c.order, "honest"); got > 1 {
			t.Errorf("the honest request was number %d", got)
		}
	})
}

func TestQueueServesLanesInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ctx := newRequests(t, fair.NewQueue(1, 1000)), context.Background()
		for i := range 50 {
			c.enter(ctx, fmt.Sprint("other ", i), "other", fmt.Sprint("10.0.", i, ".1"))
		}
		c.enter(ctx, "known", "known", "10.0.1.1")
		c.finish()
		if got := slices.Index(c.order, "known"); got != 1 {
			t.Errorf("the known browser was number %d behind requests of 50 networks", got)
		}
	})
}

// TestQueueServesLanesWithinALane: they have turns of their own, however many networks wait in each, and
// together those of one lane.
func TestQueueServesLanesWithinALane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ctx := newRequests(t, fair.NewQueue(1, 100)), context.Background()
		for i := range 4 {
			c.enter(ctx, fmt.Sprint("noisy ", i), "unknown/noisy", fmt.Sprintf("192.0.%d.1", i))
		}
		c.enter(ctx, "quiet 0", "unknown/quiet", "198.51.100.1")
		c.enter(ctx, "quiet 1", "unknown/quiet", "198.51.100.1")
		c.enter(ctx, "known 0", "known", "203.0.113.1")
		c.enter(ctx, "known 1", "known", "203.0.113.1")
		c.finish()
		c.want("noisy 0", "known 0", "quiet 0", "known 1", "noisy 1", "quiet 1", "noisy 2", "noisy 3")
	})
}

// TestQueueGivesToWhoHoldsFewest: a network that holds places gets no more while others wait.
func TestQueueGivesToWhoHoldsFewest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ctx := newRequests(t, fair.NewQueue(4, 100)), context.Background()
		for i := range 8 {
			c.enter(ctx, fmt.Sprint("slow ", i), "", "192.0.2.1")
		}
		for i := range 3 {
			c.enter(ctx, fmt.Sprint("honest ", i), "", "198.51.100.1")
		}
		for _, name := range []string{"slow 0", "slow 1"} {
			c.leave[name]()
			synctest.Wait()
		}
		c.want("slow 0", "slow 1", "slow 2", "slow 3", "honest 0", "honest 1")
		c.finish()
	})
}

// TestQueueKnowsWhoStillHolds: a network of which one request has left holds the places of its others.
func TestQueueKnowsWhoStillHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ctx := newRequests(t, fair.NewQueue(3, 100)), context.Background()
		for i := range 3 {
			c.enter(ctx, fmt.Sprint("slow ", i), "", "192.0.2.1")
		}
		c.leave["slow 0"]()
		c.enter(ctx, "other", "", "203.0.113.1")
		c.enter(ctx, "slow 3", "", "192.0.2.1")
		c.enter(ctx, "honest", "", "198.51.100.1")
		c.leave["other"]()
		synctest.Wait()
		c.want("slow 0", "slow 1", "slow 2", "other", "honest")
		c.finish()
	})
}

func TestQueueTurnsAwayWhoWaitsMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ctx := newRequests(t, fair.NewQueue(1, 3)), context.Background()
		for i := range 4 {
			c.enter(ctx, fmt.Sprint("flood ", i), "", "192.0.2.1")
		}
		c.enter(ctx, "flood 4", "", "192.0.2.1")
		if !errors.Is(c.err["flood 4"], fair.ErrBusy) {
			t.Errorf("the newcomer of the only network got %v, want ErrBusy", c.err["flood 4"])
		}
		c.enter(ctx, "honest", "", "198.51.100.1")
		if !errors.Is(c.err["flood 3"], fair.ErrBusy) || c.err["honest"] != nil {
			t.Errorf("the newest of the flood got %v, the honest one %v", c.err["flood 3"], c.err["honest"])
		}
		c.finish()
		c.want("flood 0", "honest", "flood 1", "flood 2")
	})
}

// TestQueueTurnsAwayByNetworkInALane: of two lanes within one, the shorter one has the network that is
// turned away, if that has more than any in the longer one. Another lane is not asked to give way.
func TestQueueTurnsAwayByNetworkInALane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ctx := newRequests(t, fair.NewQueue(1, 8)), context.Background()
		c.enter(ctx, "first", "known", "203.0.113.1")
		c.enter(ctx, "known", "known", "203.0.113.1")
		for i := range 4 {
			c.enter(ctx, fmt.Sprint("honest ", i), "unknown/quiet", fmt.Sprintf("198.51.%d.1", i))
		}
		for i := range 3 {
			c.enter(ctx, fmt.Sprint("flood ", i), "unknown/noisy", "192.0.2.1")
		}
		c.enter(ctx, "honest 4", "unknown/quiet", "198.51.4.1")
		if !errors.Is(c.err["flood 2"], fair.ErrBusy) || len(c.err) != 2 {
			t.Errorf("%v, want only the newest of the flood to be turned away", c.err)
		}
		c.enter(ctx, "honest 5", "unknown/quiet", "198.51.5.1")
		if !errors.Is(c.err["flood 1"], fair.ErrBusy) || len(c.err) != 3 {
			t.Errorf("%v, want only the flood to be turned away", c.err)
		}
		c.enter(ctx, "honest 6", "unknown/quiet", "198.51.6.1") // all networks have one now
		if !errors.Is(c.err["honest 6"], fair.ErrBusy) || len(c.err) != 4 {
			t.Errorf("%v, want the newcomer of the longest lane to be turned away", c.err)
		}
		c.finish()
	})
}

func TestQueueOfNobodyWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ctx := newRequests(t, fair.NewQueue(1, 0)), context.Background()
		c.enter(ctx, "first", "", "192.0.2.1")
		c.enter(ctx, "second", "", "198.51.100.1")
		if !errors.Is(c.err["second"], fair.ErrBusy) {
			t.Errorf("with no room to wait the second got %v", c.err["second"])
		}
		c.finish()
		c.enter(ctx, "third", "", "198.51.100.1")
		c.want("first", "third")
	})
}

func TestQueueForgetsWhoGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newRequests(t, fair.NewQueue(1, 100))
		c.enter(context.Background(), "first", "", "192.0.2.1")
		ctx, cancel := context.WithCancel(context.Background())
		c.enter(ctx, "impatient", "", "192.0.2.1")
		c.enter(context.Background(), "patient", "", "192.0.2.1")
		cancel()
		synctest.Wait()
		if !errors.Is(c.err["impatient"], context.Canceled) || c.q.Waiting() != 1 {
			t.Errorf("who gave up got %v, and %d wait", c.err["impatient"], c.q.Waiting())
		}
		c.finish()
		c.want("first", "patient")
	})
}

// TestQueueLeaveCountsOnce: a place cannot be given back twice.
func TestQueueLeaveCountsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ctx := newRequests(t, fair.NewQueue(1, 100)), context.Background()
		c.enter(ctx, "first", "", "192.0.2.1")
		c.enter(ctx, "second", "", "192.0.2.1")
		c.enter(ctx, "third", "", "192.0.2.1")
		leave := c.leave["first"]
		leave()
		leave()
		synctest.Wait()
		c.want("first", "second")
		c.leave["second"]()
		synctest.Wait()
	})
}

func BenchmarkQueue(b *testing.B) {
	q := fair.NewQueue(2, 100)
	addr := netip.MustParseAddr("192.0.2.1")
	b.ReportAllocs()
	for b.Loop() {
		leave, err := q.Enter(context.Background(), "", addr)
		if err != nil {
			b.Fatal(err)
		}
		leave()
	}
}

// TestNobodyGoesFirstByComingBack: a network that had its turn and comes back at once waits
// behind the others, independent of the names of addresses and lanes.
func TestNobodyGoesFirstByComingBack(t *testing.T) {
	type who struct{ lane, addr string }
	for name, honest := range map[string]who{
		"a high address":       {"", "198.51.100.1"},
		"a low address":        {"", "1.0.0.1"},
		"in the same /24":      {"", "192.0.2.250"},
		"in a lane of its own": {"quiet", "192.0.2.1"},
		"over IPv6":            {"", "2001:db8::1"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, ctx := newRequests(t, fair.NewQueue(1, 100)), context.Background()
				requests := []who{{"", "192.0.2.1"}, {"", "192.0.2.2"}, {"noisy", "203.0.113.1"}, {"", "203.0.113.2"}}
				for i, w := range requests {
					c.enter(ctx, fmt.Sprint("requests ", i), w.lane, w.addr)
				}
				c.enter(ctx, "honest", honest.lane, honest.addr)
				for i := 0; i < 40 && !slices.Contains(c.order, "honest"); i++ {
					last := c.order[i]
					c.leave[last]()
					synctest.Wait()
					var n int
					fmt.Sscanf(last, "requests %d", &n)
					c.enter(ctx, last, requests[n].lane, requests[n].addr)
				}
				if got := slices.Index(c.order, "honest"); got < 0 || got > 8 {
					t.Errorf("the honest request was number %d of %q", got, c.order)
				}
				for c.q.Waiting() > 0 {
					c.leave[c.order[len(c.order)-1]]()
					synctest.Wait()
				}
			})
		})
	}
}

// TestWhoCameFirstGoesFirst: among networks with equal turns, none is preferred for its
// address.
func TestWhoCameFirstGoesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ctx := newRequests(t, fair.NewQueue(1, 100)), context.Background()
		var want []string
		for _, addr := range []string{"192.0.2.1", "203.0.113.1", "2001:db8::1", "198.51.100.1", "1.0.0.1"} {
			c.enter(ctx, addr, "", addr)
			want = append(want, addr)
		}
		c.finish()
		c.want(want...)
	})
}
