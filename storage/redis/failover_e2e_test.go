//go:build e2e

package redis_test

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"gatehouse.example/storage"
	"gatehouse.example/storage/redis"
	"gatehouse.example/storage/redis/redistest"
)

// recovery is how long a group may take to serve again after its primary was killed. It includes
// the second after which the sentinels find it down.
const recovery = 10 * time.Second

// TestFailover: a pair loses its primary, the other server serves alone with another lineage, the
// first one comes back as a replica, and then the other is lost.
func TestFailover(t *testing.T) {
	first := redistest.Start(t, redistest.Config{Persistent: true})
	second := redistest.Start(t, redistest.Config{Persistent: true, ReplicaOf: first})
	group := redistest.StartSentinels(t, "main", first, 3, time.Second)
	b := open(t, redis.Options{URL: group.URL()})
	defer b.Close()
	before := lineageOf(t, b)
	kept := fresh("kept", before)
	if _, err := b.Put(t.Context(), kept); err != nil {
		t.Fatal(err)
	}
	for _, pair := range [][2]*redistest.Server{{first, second}, {second, first}} {
		killed, left := pair[0], pair[1]
		killed.Kill()
		start := time.Now()
		served := fresh("served", "")
		eventually(t, "a write after the primary was killed", func() bool {
			_, err := b.Put(t.Context(), served)
			for _, no := range []error{storage.ErrNotFound, storage.ErrConflict, storage.ErrLineage, storage.ErrRecord} {
				if errors.Is(err, no) {
					t.Fatalf("while there is no primary: %v", err)
				}
			}
			return err == nil
		})
		if took := time.Since(start); took > recovery {
			t.Errorf("a write succeeds %v after the primary was killed", took)
		}
		if left.Client().Exists(t.Context(), "served", "kept").Val() != 2 {
			t.Error("the one that is left does not have what was acknowledged")
		}
		after := lineageOf(t, b)
		if after == before {
			t.Error("the lineage is the same")
		}
		if _, err := b.Put(t.Context(), fresh("kept", before)); !errors.Is(err, storage.ErrLineage) {
			t.Errorf("a write that relies on the lineage before: %v", err)
		}
		before = after

		killed.Restart()
		group.Settle(1)
		eventually(t, "a write that both have", func() bool {
			joined := fresh("joined", "")
			_, err := b.Put(t.Context(), joined)
			return err == nil && killed.Client().Exists(t.Context(), "joined").Val() == 1
		})
		left.Client().Del(t.Context(), "joined", "served")
	}
}

// TestClusterFailover: a part of the keys loses its primary. The client is not redirected to the
// replica that takes its place, because the server that it asks is gone.
func TestClusterFailover(t *testing.T) {
	cluster := redistest.StartCluster(t, 3, 1, redistest.Config{Persistent: true})
	b := open(t, redis.Options{URL: cluster.URL()})
	defer b.Close()
	for i := range 2 {
		kept := fresh(fmt.Sprint("kept ", i), "")
		if _, err := b.Put(t.Context(), kept); err != nil {
			t.Fatal(err)
		}
		slot := cluster.Slot(kept.Key)
		primary := cluster.Owner(slot)
		primary.Kill()
		eventually(t, "a promotion", func() bool { return cluster.Owner(slot) != primary })
		start := time.Now()
		read := func() error { _, err := b.Get(t.Context(), kept.Key); return err }
		write := func() error { _, err := b.Put(t.Context(), kept); return err }
		for what, try := range map[string]func() error{"a read": read, "a write": write} {
			eventually(t, what+" after the promotion", func() bool {
				err := try()
				if errors.Is(err, storage.ErrNotFound) || errors.Is(err, storage.ErrConflict) {
					t.Fatalf("%s: what was acknowledged is gone: %v", what, err)
				}
				return err == nil
			})
		}
		if took := time.Since(start); took > recovery {
			t.Errorf("everything works %v after the promotion", took)
		}
		primary.Restart()
		cluster.Settle()
	}
}

// TestClusterGrows: a primary joins a cluster with replicas. While the first slot moves to it, it
// has none, and so the other ones do not list it as a primary. A write that follows a key to it
// is settled when the slot has moved.
func TestClusterGrows(t *testing.T) {
	cluster := redistest.StartCluster(t, 3, 1, redistest.Config{Persistent: true})
	newcomer := join(t, cluster)
	b := open(t, redis.Options{URL: cluster.URL()})
	defer b.Close()
	store, err := storage.New(b, storage.Options{})
	if err != nil {
		t.Fatal(err)
	}
	user := storage.User{Name: "somebody"}
	if err := store.CreateUser(t.Context(), user); err != nil {
		t.Fatal(err)
	}
	slot := cluster.Slot("gatehouse:user:somebody")
	from := cluster.Owner(slot)
	update := func() error {
		u, err := store.User(t.Context(), user.Name)
		if err == nil {
			err = store.UpdateUser(t.Context(), u)
		}
		return err
	}
	eventually(t, "a write that waits for a replica", func() bool {
		return update() == nil && strings.Contains(from.Client().Info(t.Context(), "commandstats").Val(), "cmdstat_wait:")
	})
	calls, settled := 0, make(chan error, 1)
	cluster.MigrateSlot(slot, from, newcomer, func() {
		if calls++; calls != 2 {
			return
		}
		go func() { settled <- update() }()
		eventually(t, "that the write is sent to the newcomer", func() bool {
			return strings.Contains(from.Client().Info(t.Context(), "errorstats").Val(), "errorstat_ASK:")
		})
	})
	if err := <-settled; err != nil {
		t.Errorf("a write while the first slot moves: %v", err)
	}
}

// join makes another server, which has no replica, a primary of the cluster.
func join(t *testing.T, cluster *redistest.Cluster) *redistest.Server {
	t.Helper()
	server := redistest.Start(t, redistest.Config{Persistent: true, Args: []string{"--cluster-enabled", "yes"}})
	for _, node := range cluster.Nodes {
		bus, err := node.Client().ConfigGet(t.Context(), "cluster-port").Result()
		if err != nil {
			t.Fatal(err)
		}
		host, port, _ := net.SplitHostPort(node.Addr)
		if err := server.Client().Do(t.Context(), "cluster", "meet", host, port, bus["cluster-port"]).Err(); err != nil {
			t.Fatal(err)
		}
	}
	cluster.Nodes = append(cluster.Nodes, server)
	cluster.Settle()
	return server
}

// TestPromotedUnnoticed: in the middle of a failover a replica has been promoted, the sentinels
// still name the primary before, and that one, which was only slow, has no replica any more. It
// is not alone: its answers would be lost.
func TestPromotedUnnoticed(t *testing.T) {
	primary := redistest.Start(t, redistest.Config{})
	replica := redistest.Start(t, redistest.Config{ReplicaOf: primary})
	group := redistest.StartSentinels(t, "main", primary, 3, time.Second)
	b := open(t, redis.Options{URL: group.URL()})
	defer b.Close()
	lineageOf(t, b)

	// The sentinels would make it a replica again, and so would the backend.
	if err := replica.Client().ACLSetUser(t.Context(), "default", "-slaveof", "-replicaof", "+replicaof|no").Err(); err != nil {
		t.Fatal(err)
	}
	if err := replica.Client().Do(t.Context(), "replicaof", "no", "one").Err(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(4 * time.Second); time.Now().Before(end); {
		if _, err := b.Put(t.Context(), fresh("forgotten", "")); err == nil || errors.Is(err, storage.ErrConflict) {
			t.Fatalf("a write that the promoted replica does not hear of: %v", err)
		}
		replica.Client().Do(t.Context(), "client", "kill", "type", "normal") // as a promotion does
	}
	if at := group.Primary(); at != primary.Addr {
		t.Fatalf("the sentinels name %s; want %s", at, primary.Addr)
	}

	if err := replica.Client().ACLSetUser(t.Context(), "default", "+slaveof", "+replicaof").Err(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a write that both have", func() bool {
		_, err := b.Put(t.Context(), fresh("kept", ""))
		return err == nil && replica.Client().Exists(t.Context(), "kept").Val() == 1
	})
}

// TestMinorityIsNotAlone: a primary whose replicas are gone serves alone, unless the sentinel
// that reports it has lost the others, which may be promoting one of them.
func TestMinorityIsNotAlone(t *testing.T) {
	primary := redistest.Start(t, redistest.Config{})
	replica := redistest.Start(t, redistest.Config{ReplicaOf: primary})
	group := redistest.StartSentinels(t, "main", primary, 3, time.Second)
	b := open(t, redis.Options{URL: group.URL()})
	defer b.Close()
	lineageOf(t, b)
	writes := func() bool { _, err := b.Put(t.Context(), fresh("k", "")); return err == nil }

	for _, sentinel := range group.Nodes[1:] {
		sentinel.Kill()
	}
	replica.Kill()
	for end := time.Now().Add(4 * time.Second); time.Now().Before(end); {
		if writes() {
			t.Fatal("with one sentinel of three a write was acknowledged that no replica has")
		}
	}
	group.Nodes[1].Restart()
	eventually(t, "a write when two of three sentinels know that it is alone", writes)
}
