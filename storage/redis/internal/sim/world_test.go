package sim_test

import (
	"testing"
	"testing/synctest"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"gatehouse.example/storage/redis/internal/sim"
)

// inWorld runs a test in a new world, with a process P1.
func inWorld(t *testing.T, cfg sim.Config, test func(t *testing.T, w *sim.World, p *sim.Process)) {
	synctest.Test(t, func(t *testing.T) {
		cfg.Log = func(line string) { t.Log(line) }
		w := sim.New(cfg)
		defer w.Stop()
		test(t, w, w.Process("P1"))
	})
}

func TestWriteIsReplicated(t *testing.T) {
	inWorld(t, sim.Config{}, func(t *testing.T, w *sim.World, p *sim.Process) {
		time.Sleep(3 * time.Second)
		a, b := p.Connect(w.Addr("A")), p.Connect(w.Addr("B"))
		pipe := a.Pipeline()
		pipe.Set(t.Context(), "key", "value", 0)
		wait := pipe.Do(t.Context(), "wait", "2", "500")
		if _, err := pipe.Exec(t.Context()); err != nil || wait.Val() != int64(2) {
			t.Fatalf("WAIT: %v, %v", wait.Val(), err)
		}
		if got := b.Get(t.Context(), "key").Val(); got != "value" {
			t.Errorf("B has %q", got)
		}
		if err := b.Set(t.Context(), "key", "other", 0).Err(); !goredis.HasErrorPrefix(err, "READONLY") {
			t.Errorf("a write to a replica: %v", err)
		}
		t.Log(a.Info(t.Context(), "replication").Val())
		t.Log(b.Info(t.Context(), "replication").Val())
	})
}

func TestStalledPrimaryIsReplaced(t *testing.T) {
	inWorld(t, sim.Config{}, func(t *testing.T, w *sim.World, p *sim.Process) {
		time.Sleep(3 * time.Second)
		w.Do(sim.Fault{What: sim.Stall, Nodes: []string{"A"}, For: 12 * time.Second})
		time.Sleep(10 * time.Second)
		v := w.View()
		if v.Primary != "B" && v.Primary != "C" {
			t.Errorf("the sentinels name %q", v.Primary)
		}
		time.Sleep(30 * time.Second)
		if v := w.View(); v.Roles["A"] != v.Primary {
			t.Errorf("A follows %q, the primary is %q", v.Roles["A"], v.Primary)
		}
	})
}

// TestTransaction: a transaction is executed if no watched key has changed. A primary that a
// process makes a replica is filled, and is a primary again afterwards.
func TestTransaction(t *testing.T) {
	inWorld(t, sim.Config{SyncDelay: time.Second}, func(t *testing.T, w *sim.World, p *sim.Process) {
		time.Sleep(3 * time.Second)
		w.Do(sim.Fault{What: sim.Cut, Nodes: []string{"S1", "S2", "S3"}, For: time.Hour}) // they would mind
		a, b := p.Connect(w.Addr("A")), p.Connect(w.Addr("B"))
		b.Do(t.Context(), "replicaof", "no", "one")
		a.Set(t.Context(), "key", "of A", 0)
		for _, disturbed := range []bool{true, false} {
			err := b.Watch(t.Context(), func(tx *goredis.Tx) error {
				if disturbed {
					b.Set(t.Context(), "key", "of B", 0)
				}
				_, err := tx.TxPipelined(t.Context(), func(pipe goredis.Pipeliner) error {
					return pipe.Do(t.Context(), "replicaof", "10.0.0.1", "6379").Err()
				})
				return err
			}, "key")
			if disturbed != (err == goredis.TxFailedErr) || !disturbed && err != nil {
				t.Errorf("disturbed: %v; the error is %v", disturbed, err)
			}
		}
		time.Sleep(4 * time.Second)
		b.Do(t.Context(), "replicaof", "no", "one")
		if got := b.Get(t.Context(), "key").Val(); got != "of A" || w.View().Roles["B"] != "master" {
			t.Errorf("B has %q and is %s", got, w.View().Roles["B"])
		}
	})
}
