//go:build e2e

package redis_test

import (
	"context"
	"errors"
	"flag"
	mathrand "math/rand/v2"
	"sync"
	"testing"
	"time"

	"gatehouse.example/storage"
	"gatehouse.example/storage/internal/histories"
	"gatehouse.example/storage/redis"
	"gatehouse.example/storage/redis/redistest"
)

// howMany is the number of histories for each kind of trouble.
var howMany = flag.Int("redis.histories", 1, "how many histories to check for each kind of trouble")

// patient is how long a client of a history waits: less than an operation may take, so that more
// of them become uncertain.
const patient = 60 * time.Millisecond

// do makes one call.
func do(t *testing.T, c *histories.Chronicle, client int, a histories.Call) error {
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	defer cancel()
	return c.Do(ctx, client, a)
}

// live makes calls until the end. An uncertain write is sent again, as a store does, but not
// always: other clients continue from its possible effect.
func live(t *testing.T, c *histories.Chronicle, client int, end time.Time) {
	for time.Now().Before(end) {
		a := c.Choose()
		for errors.Is(do(t, c, client, a), storage.ErrUncertain) && mathrand.IntN(4) > 0 {
			<-time.After(time.Millisecond)
		}
		<-time.After(time.Duration(mathrand.IntN(5)) * time.Millisecond)
	}
}

// weather is the faults between a backend and its server, which alternate on and off.
type weather struct {
	name    string
	bad     func(p *redistest.Proxy)
	on, off time.Duration
}

// hour is longer than any client waits. Clear delivers the delayed bytes.
const hour = time.Hour

func weathers() []weather {
	const long, short = 100 * time.Millisecond, 30 * time.Millisecond
	return []weather{
		{"fair", func(*redistest.Proxy) {}, short, short},
		{"late replies", func(p *redistest.Proxy) { p.Latency(redistest.Replies, hour, 0) }, long, long},
		{"late requests", func(p *redistest.Proxy) { p.Latency(redistest.Requests, hour, 0) }, long, long},
		{"lost replies", func(p *redistest.Proxy) { p.BlackHole(redistest.Replies) }, long, long},
		{"lost requests", func(p *redistest.Proxy) { p.BlackHole(redistest.Requests) }, long, long},
		{"replies reset", func(p *redistest.Proxy) { p.ResetOn(redistest.Replies) }, short, long},
		{"requests reset", func(p *redistest.Proxy) { p.ResetOn(redistest.Requests) }, short, long},
		{"reset", (*redistest.Proxy).Reset, short, short},
		{"refused", (*redistest.Proxy).Cut, short, long},
		{"jitter", func(p *redistest.Proxy) {
			p.Latency(redistest.Requests, 15*time.Millisecond, 15*time.Millisecond)
			p.Latency(redistest.Replies, 20*time.Millisecond, 20*time.Millisecond)
		}, long, short},
	}
}

// blow runs the faults until the end.
func (w weather) blow(p *redistest.Proxy, end time.Time) {
	for time.Now().Before(end) {
		w.bad(p)
		<-time.After(w.on)
		p.Restore()
		p.Clear()
		<-time.After(w.off)
	}
}

// write has some clients share some keys of a new backend during faults. After the faults, when
// late messages have arrived, every client reads all keys once more.
func (w weather) write(t *testing.T, server *redistest.Server) *histories.Chronicle {
	t.Helper()
	const clients, keys = 5, 8
	p := redistest.StartProxy(t, server.Addr)
	defer p.Close()
	b := open(t, redis.Options{URL: "redis://" + p.Addr, PoolSize: 500}) // so many refusals are forgiven
	defer b.Close()
	c := histories.New(b, keys)
	end := time.Now().Add(time.Second)
	var all sync.WaitGroup
	for client := range clients {
		all.Go(func() { live(t, c, client, end) })
	}
	all.Go(func() { w.blow(p, end) })
	all.Wait()
	for _, key := range c.Keys {
		eventually(t, "an answer", func() bool { return do(t, c, clients, histories.Call{Key: key}) == nil })
	}
	return c
}

// TestHistories: whatever the network does, the answers to the clients of a backend are as if one
// operation happened after the other. An operation with an unknown outcome has been applied once,
// at some time after its call, or never; one that has certainly failed has not been applied.
func TestHistories(t *testing.T) {
	server := redistest.Start(t, redistest.Config{})
	for _, w := range weathers() {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			for range *howMany {
				c := w.write(t, server)
				count := c.Count()
				t.Logf("%+v", count)
				if err := c.Check(); err != nil {
					t.Fatal(err)
				}
				if count.Uncertain+count.Failed == 0 && w.name != "fair" {
					t.Error("the weather was too fair")
				}
			}
		})
	}
}
