package redis

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"gatehouse.example/storage"
	"gatehouse.example/storage/redis/internal/sim"
)

// counting returns a client that counts what it passes on to another one.
func counting(to *goredis.Client, n *atomic.Int64) *goredis.Client {
	c := goredis.NewClient(&goredis.Options{Addr: to.Options().Addr, MaintNotificationsConfig: noMaintenance()})
	c.AddHook(countingHook{to, n})
	return c
}

type countingHook struct {
	to *goredis.Client
	n  *atomic.Int64
}

// DialHook implements goredis.Hook.
func (countingHook) DialHook(next goredis.DialHook) goredis.DialHook { return next }

// ProcessHook implements goredis.Hook.
func (h countingHook) ProcessHook(goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, cmd goredis.Cmder) error {
		h.n.Add(1)
		return h.to.Process(ctx, cmd)
	}
}

// ProcessPipelineHook implements goredis.Hook.
func (h countingHook) ProcessPipelineHook(goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []goredis.Cmder) error {
		h.n.Add(1)
		together(ctx, h.to, cmds...)
		return cmds[0].Err()
	}
}

// TestConflictsCauseNoLooks: that something is there already, or not there, is an answer: however many
// writes meet that, the sentinels are asked no more often.
func TestConflictsCauseNoLooks(t *testing.T) {
	skipRaced(t)
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(model{servers: 2, seed: 1}.config())
		defer w.Stop()
		scripts(w)
		time.Sleep(time.Second)
		p, asked := w.Process("P1"), &atomic.Int64{}
		b := &backend{unshared: true}
		b.group = openGroup(t.Context(), dial{
			name: "main", sentinels: w.SentinelAddrs(), server: p.Connect, sentinel: func(addr string) *goredis.Client {
				return counting(p.Connect(addr), asked)
			},
		}, b.measure, func(string) {})
		defer b.Close()
		if err := b.group.await(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Put(t.Context(), storage.Put{Key: "k", Operation: storage.Version{1}}); err != nil {
			t.Fatal(err)
		}
		for before, i := asked.Load(), 0; asked.Load() == before; i++ { // until just after a look
			if time.Sleep(time.Millisecond); i == 10000 {
				t.Fatal("nobody asks the sentinels")
			}
		}
		time.Sleep(50 * time.Millisecond)
		before, begun := asked.Load(), time.Now()
		for i := range 10 {
			for _, change := range []storage.Put{{Key: "k", Operation: storage.Version{2, byte(i)}}, {Key: "none", If: storage.Unchanged(storage.Version{9}), Operation: storage.Version{3, byte(i)}}} {
				if _, err := b.Put(t.Context(), change); !errors.Is(err, storage.ErrConflict) {
					t.Fatalf("%s: %v", change.Key, err)
				}
			}
		}
		time.Sleep(2 * restTime)
		if n := asked.Load() - before; n != 0 {
			t.Errorf("the sentinels were asked %d times in %v", n, time.Since(begun))
		}
	})
}
