//go:build e2e

package redistest_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"gatehouse.example/storage/redis/redistest"
)

func startCluster(t *testing.T, masters, replicas int) *redistest.Cluster {
	t.Helper()
	start := time.Now()
	c := redistest.StartCluster(t, masters, replicas, redistest.Config{Persistent: true})
	t.Logf("a cluster of %d masters with %d replicas each was ready after %v", masters, replicas, time.Since(start))
	return c
}

// clusterClient returns a client that follows slots.
func clusterClient(t *testing.T, c *redistest.Cluster) *goredis.ClusterClient {
	t.Helper()
	client := goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: strings.Split(strings.TrimPrefix(c.URL(), "redis+cluster://"), ",")})
	t.Cleanup(func() { client.Close() })
	return client
}

func TestCluster(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3, 1)
	if len(c.Nodes) != 6 || len(strings.Split(c.URL(), ",")) != 6 {
		t.Fatalf("there are %d nodes, the URL is %s", len(c.Nodes), c.URL())
	}
	for _, test := range []struct {
		key  string
		slot int
	}{{"foo", 12182}, {"a{foo}b", 12182}, {"123456789", 12739}} { // the last one is the specification's
		if got := c.Slot(test.key); got != test.slot {
			t.Errorf("the slot of %q is %d; want %d", test.key, got, test.slot)
		}
	}
	for slot, master := range map[int]int{0: 0, 5460: 0, 5461: 1, 10921: 1, 10922: 2, 16383: 2} {
		if got := c.Owner(slot); got != c.Nodes[master] {
			t.Errorf("the owner of slot %d is %s; want %s", slot, got.Addr, c.Nodes[master].Addr)
		}
	}
	client := clusterClient(t, c)
	for i := range 100 {
		if err := client.Set(t.Context(), fmt.Sprint("key ", i), i, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 3 {
		master, replica := size(t, c.Nodes[i]), size(t, c.Nodes[i+3])
		if master == 0 {
			t.Errorf("master %d holds nothing", i)
		}
		until(t, "that the replica has what its master has", func() bool { replica = size(t, c.Nodes[i+3]); return replica == master })
	}
}

func size(t *testing.T, s *redistest.Server) int64 {
	t.Helper()
	n, err := s.Client().DBSize(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestClusterFailover: a replica takes the place of a master that is silent or gone, and the
// former master comes back as a replica.
func TestClusterFailover(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3, 1)
	client := clusterClient(t, c)
	const key = "bar" // its master is the first node, and so the first to be asked
	if err := client.Set(t.Context(), key, "value", 0).Err(); err != nil {
		t.Fatal(err)
	}
	slot := c.Slot(key)
	for i, fault := range []struct{ begin, end func(*redistest.Server) }{
		{(*redistest.Server).Pause, (*redistest.Server).Resume},
		{(*redistest.Server).Kill, (*redistest.Server).Restart},
	} {
		master := c.Owner(slot)
		if master != c.Nodes[i*3] {
			t.Errorf("the owner of slot %d is %s", slot, master.Addr)
		}
		if n, err := master.Client().Wait(t.Context(), 1, patience).Result(); n != 1 || err != nil {
			t.Fatalf("%d replicas have the write, %v", n, err)
		}
		fault.begin(master)
		start := time.Now()
		until(t, "a failover", func() bool { return c.Owner(slot) != master })
		t.Logf("another master was there after %v", time.Since(start))
		if got := read(t, c.Owner(slot), key); got != "value" {
			t.Errorf("the new owner holds %q; want value", got)
		}
		fault.end(master)
		if c.Owner(slot) == master { // it may list itself
			t.Error("the old master owns the slot again")
		}
		c.Settle()
		if got := role(t, master); got != "slave" {
			t.Errorf("who was master is a %s", got)
		}
	}
}

// TestClusterMigrateSlot: while a slot is half moved, the moved keys are at the target and the
// rest at the source, and clients find both.
func TestClusterMigrateSlot(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 2, 1)
	client := clusterClient(t, c)
	const keys = 35
	slot := c.Slot("{tag}")
	name := func(i int) string { return fmt.Sprint("{tag}", i) }
	for i := range keys {
		if err := client.Set(t.Context(), name(i), i, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	from := c.Owner(slot)
	to := c.Nodes[0]
	if to == from {
		to = c.Nodes[1]
	}
	var moved []int64
	c.MigrateSlot(slot, from, to, func() {
		moved = append(moved, size(t, to))
		if size(t, from)+size(t, to) != keys {
			t.Errorf("there are %d keys at the source and %d at the target; want %d in all", size(t, from), size(t, to), keys)
		}
		for i := range keys {
			if got, err := client.Get(t.Context(), name(i)).Int(); got != i || err != nil {
				t.Errorf("key %d holds %d, %v", i, got, err)
			}
		}
		if err := to.Client().Get(t.Context(), name(0)).Err(); !goredis.HasErrorPrefix(err, "MOVED") || c.Owner(slot) != from {
			t.Errorf("the target answers %v, the owner is %s; want MOVED to %s", err, c.Owner(slot).Addr, from.Addr)
		}
	})
	if got := fmt.Sprint(moved); got != "[0 10 20 30 35]" {
		t.Errorf("between the batches %s keys had moved; want [0 10 20 30 35]", got)
	}
	c.Settle()
	if c.Owner(slot) != to || size(t, from) != 0 || size(t, to) != keys {
		t.Errorf("after the migration %s owns the slot, the source has %d keys, the target %d", c.Owner(slot).Addr, size(t, from), size(t, to))
	}
	if err := from.Client().Get(t.Context(), name(0)).Err(); !goredis.HasErrorPrefix(err, "MOVED") {
		t.Errorf("the source answers %v; want MOVED", err)
	}
	c.MigrateSlot(slot, to, from, nil)
	c.Settle()
	if c.Owner(slot) != from || size(t, from) != keys {
		t.Errorf("after the way back %s owns the slot, the source has %d keys", c.Owner(slot).Addr, size(t, from))
	}
}

// TestDivide: nodes that are divided off do not reach the others, and clients reach the side that
// the test chooses. Afterwards all nodes are connected again.
func TestDivide(t *testing.T) {
	t.Parallel()
	c := redistest.StartDivisible(t, 3, 1, redistest.Config{Args: []string{"--cluster-require-full-coverage", "no"}})
	slot := c.Slot("k")
	primary := c.Owner(slot)
	write := func() bool { // a client that has no information from another side
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		return clusterClient(t, c).Set(ctx, "k", "v", 0).Err() == nil
	}
	until(t, "a write", write)

	c.Divide(redistest.ReachesPart, primary)
	until(t, "that a replica takes over", func() bool { return c.Owner(slot) != primary })
	if info := primary.Client().ClusterInfo(t.Context()).Val(); !strings.Contains(info, "cluster_state:fail") {
		t.Errorf("the node that is cut off says %q", info)
	}
	if write() {
		t.Error("a client of the node that is cut off writes")
	}
	c.Divide(redistest.ReachesRest, primary)
	until(t, "a write to the others", write)
	c.Join()
	c.Settle()
	if c.Owner(slot) == primary {
		t.Error("who was cut off is the owner again")
	}
}
