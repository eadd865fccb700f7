//go:build e2e

package redis_test

import (
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"gatehouse.example/storage"
	"gatehouse.example/storage/redis"
	"gatehouse.example/storage/redis/redistest"
)

// part is the part of a cluster with one key: its primary, then the replicas.
type part struct {
	*redistest.Cluster
	key     string
	slot    int
	servers []*redistest.Server
}

// partOf returns the part that has a key, and writes that key.
func partOf(t *testing.T, c *redistest.Cluster, key string) part {
	t.Helper()
	p := part{Cluster: c, key: key, slot: c.Slot(key)}
	first := slices.Index(c.Nodes, c.Owner(p.slot))
	for i := first; i < len(c.Nodes); i += 3 {
		p.servers = append(p.servers, c.Nodes[i])
	}
	return p
}

// clusterWith starts three primaries with replicas; a node that is silent for timeout has failed.
func clusterWith(t *testing.T, replicas int, timeout string, args ...string) part {
	t.Helper()
	c := redistest.StartDivisible(t, 3, replicas, redistest.Config{Persistent: true, Args: append([]string{
		"--cluster-node-timeout", timeout, "--cluster-require-full-coverage", "no",
	}, args...)})
	return partOf(t, c, "k")
}

// awaitTakeover waits until a replica has taken the place of the primary.
func (p part) awaitTakeover(t *testing.T) *redistest.Server {
	t.Helper()
	eventually(t, "a takeover", func() bool { return p.Owner(p.slot) != p.servers[0] })
	return p.Owner(p.slot)
}

// write writes a new item under the key.
func write(t *testing.T, b storage.Backend, key string) error {
	_, err := b.Put(t.Context(), fresh(key, ""))
	return err
}

// awaitReplicas waits until all servers list all replicas of the part, which requires an offset
// from each, and writes wait for all: while one of them hangs, no write is confirmed.
func (p part) awaitReplicas(t *testing.T, b storage.Backend) {
	t.Helper()
	last := p.servers[len(p.servers)-1]
	eventually(t, "that all replicas are listed", func() bool {
		_ = write(t, b, p.key)
		for _, node := range p.Nodes {
			slots := goredis.NewClusterSlotsCmd(t.Context(), "cluster", "slots")
			_ = node.Client().Process(t.Context(), slots)
			for _, s := range slots.Val() {
				if s.Start <= p.slot && p.slot <= s.End && len(s.Nodes) < len(p.servers) {
					return false
				}
			}
		}
		return true
	})
	eventually(t, "a write that waits for all replicas", func() bool {
		last.Pause()
		defer last.Resume()
		return errors.Is(write(t, b, p.key), storage.ErrUncertain)
	})
	eventually(t, "a write that all have", func() bool { return write(t, b, p.key) == nil })
}

// TestClusterMinorityReads: a primary that is cut off from the others goes on for some time, in
// this test for ever. A process on its side gets no answer that could be outdated by a takeover;
// a process that reaches all servers uses the new primary.
func TestClusterMinorityReads(t *testing.T) {
	t.Parallel()
	p := clusterWith(t, 1, "5000", "--cluster-allow-reads-when-down", "yes")
	b := open(t, redis.Options{URL: p.URL()})
	defer b.Close()
	p.awaitReplicas(t, b)
	old, err := b.Get(t.Context(), p.key)
	if err != nil {
		t.Fatal(err)
	}

	p.Divide(redistest.ReachesPart, p.servers[0])
	start := time.Now()
	var until time.Duration
	for p.Owner(p.slot) == p.servers[0] {
		if _, err := b.Get(t.Context(), p.key); err == nil {
			until = time.Since(start)
		}
	}
	t.Logf("it was read for %v; the takeover was after %v", until, time.Since(start))
	if until > 5*time.Second {
		t.Errorf("it was read for %v", until)
	}
	for end := time.Now().Add(time.Second); time.Now().Before(end); {
		if p.servers[0].Client().Exists(t.Context(), p.key).Val() != 1 {
			t.Fatal("the server itself reads no more")
		}
		if _, err := b.Get(t.Context(), p.key); err == nil {
			t.Fatal("after the takeover the old copy is read")
		}
	}

	p.Divide(redistest.ReachesAll, p.servers[0])
	eventually(t, "a write on the other side", func() bool { return write(t, b, p.key) == nil })
	for end := time.Now().Add(4 * time.Second); time.Now().Before(end); {
		if item, err := b.Get(t.Context(), p.key); err == nil && item.Version == old.Version {
			t.Fatal("the old copy is read by somebody who reaches everybody")
		}
	}
}

// TestClusterMinorityWrites: a primary and one of its replicas are cut off, and the other replica
// takes over. A write that this one lacks was not acknowledged.
func TestClusterMinorityWrites(t *testing.T) {
	t.Parallel()
	p := clusterWith(t, 2, "3000")
	b := open(t, redis.Options{URL: p.URL()})
	defer b.Close()
	p.awaitReplicas(t, b)
	p.Divide(redistest.ReachesAll, p.servers[0], p.servers[1])
	var acknowledged []string
	for p.Owner(p.slot) == p.servers[0] {
		key := "{k}" + rand.Text()
		if write(t, b, key) == nil {
			acknowledged = append(acknowledged, key)
		}
	}
	p.Join()
	p.Settle()
	for _, key := range acknowledged {
		if p.Owner(p.slot).Client().Exists(t.Context(), key).Val() != 1 {
			t.Errorf("of %d acknowledged writes one is gone", len(acknowledged))
		}
	}
}

// TestClusterHangingReplica: one of two replicas hangs. Long before the cluster gives it up,
// writes are answered that the other one has.
func TestClusterHangingReplica(t *testing.T) {
	t.Parallel()
	p := clusterWith(t, 2, "30000")
	b := open(t, redis.Options{URL: p.URL()})
	defer b.Close()
	p.awaitReplicas(t, b)
	for range 3 {
		p.servers[1].Pause()
		start := time.Now()
		eventually(t, "a write that the other replica has", func() bool { return write(t, b, p.key) == nil })
		t.Logf("it took %v", time.Since(start))
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("it took %v", took)
		}
		p.servers[1].Resume()
		p.awaitReplicas(t, b)
	}
}

// flap stalls a primary until its replica has taken over and acknowledged a write alone, and then
// that one, just when the first one is back.
func (p part) flap(t *testing.T, b storage.Backend) {
	t.Helper()
	p.awaitReplicas(t, b)
	p.servers[0].Pause()
	p.awaitTakeover(t)
	eventually(t, "a write that one alone has", func() bool { return write(t, b, "{k}alone") == nil })
	p.servers[1].Pause()
	p.servers[0].Resume()
}

// TestClusterFlap: after two stalls a primary is back with an old copy. It does not take over:
// Redis promotes only a replica that was recently in step with the primary.
func TestClusterFlap(t *testing.T) {
	t.Parallel()
	p := clusterWith(t, 1, "1000")
	b := open(t, redis.Options{URL: p.URL()})
	defer b.Close()
	p.flap(t, b)
	for end := time.Now().Add(8 * time.Second); time.Now().Before(end); {
		if _, err := b.Get(t.Context(), "{k}alone"); err == nil || errors.Is(err, storage.ErrNotFound) {
			t.Fatalf("the old copy answers: %v", err)
		}
	}
	p.servers[1].Resume()
	eventually(t, "a read of what was acknowledged", func() bool {
		_, err := b.Get(t.Context(), "{k}alone")
		if errors.Is(err, storage.ErrNotFound) {
			t.Fatal("what was acknowledged is gone")
		}
		return err == nil
	})
}

// TestClusterFlapWithoutValidity: with cluster-replica-validity-factor 0 it does take over, and
// acknowledged writes are lost. Open warns of that.
func TestClusterFlapWithoutValidity(t *testing.T) {
	t.Parallel()
	p := clusterWith(t, 1, "1000", "--cluster-replica-validity-factor", "0")
	b := open(t, redis.Options{URL: p.URL()})
	defer b.Close()
	p.flap(t, b)
	eventually(t, "that the old copy takes over", func() bool {
		_, err := b.Get(t.Context(), "{k}alone")
		return errors.Is(err, storage.ErrNotFound)
	})
}

// TestClusterAlone: when the replica of a part has been given up, its primary serves alone. If
// that one ends just when the replica is back, the replica takes over without the writes
// acknowledged meanwhile. With min-replicas-to-write there are none.
func TestClusterAlone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ least, name string }{{"0", "alone"}, {"1", "refused"}} {
		t.Run(c.name, func(t *testing.T) {
			p := clusterWith(t, 1, "4000", "--min-replicas-to-write", c.least, "--min-replicas-max-lag", "2")
			b := open(t, redis.Options{URL: p.URL()})
			defer b.Close()
			p.awaitReplicas(t, b)
			p.Divide(redistest.ReachesRest, p.servers[1])
			acknowledged := func() bool { return write(t, b, "{k}alone") == nil }
			if c.least == "0" {
				eventually(t, "a write that no replica has", acknowledged)
			}
			for end := time.Now().Add(12 * time.Second); c.least == "1" && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
				if acknowledged() {
					t.Fatal("a write that no replica has was acknowledged")
				}
			}
			p.servers[0].Kill()
			p.Join()
			next := p.awaitTakeover(t)
			if next.Client().Exists(t.Context(), "{k}alone").Val() == 1 {
				t.Error("the replica has what it never heard of")
			}
			if next.Client().Exists(t.Context(), p.key).Val() != 1 {
				t.Error("what was acknowledged before is gone")
			}
		})
	}
}

// TestClusterMigration: a part loses its replicas, and the spare one of another part moves to it.
// If the primary ends before that one is filled, it takes over, and all records of the part are
// lost. Without cluster-allow-replica-migration the part is away until its primary is back with
// all records.
func TestClusterMigration(t *testing.T) {
	t.Parallel()
	for _, allow := range []string{"yes", "no"} {
		t.Run(allow, func(t *testing.T) {
			p := clusterWith(t, 2, "1000", "--cluster-allow-replica-migration", allow)
			b := open(t, redis.Options{URL: p.URL()})
			defer b.Close()
			p.awaitReplicas(t, b)
			if err := p.servers[0].Client().Do(t.Context(), "config", "set", "repl-diskless-sync", "yes", "repl-diskless-sync-delay", "60").Err(); err != nil {
				t.Fatal(err)
			}
			p.servers[1].Kill()
			p.servers[2].Kill()
			moved := func() bool {
				return strings.Contains(p.servers[0].Client().Info(t.Context(), "replication").Val(), "state=wait_bgsave")
			}
			if allow == "no" {
				for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
					if moved() {
						t.Fatal("a replica moves")
					}
				}
				p.servers[0].Restart()
				eventually(t, "a read of what was acknowledged", func() bool { _, err := b.Get(t.Context(), p.key); return err == nil })
				return
			}
			eventually(t, "that a replica moves", moved)
			p.servers[0].Kill()
			p.awaitTakeover(t)
			eventually(t, "that the records are gone", func() bool {
				_, err := b.Get(t.Context(), p.key)
				return errors.Is(err, storage.ErrNotFound)
			})
		})
	}
}
