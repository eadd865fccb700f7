//go:build e2e

package redistest_test

import (
	"net"
	"strings"
	"testing"
	"time"

	"gatehouse.example/storage/redis/redistest"
)

// downAfter is the time after which the sentinels of these tests find a server down.
const downAfter = time.Second

// group is a primary, its replicas and three sentinels.
type group struct {
	*redistest.Sentinels
	servers []*redistest.Server // the first is the primary at the start
}

func startGroup(t *testing.T, replicas int) group {
	t.Helper()
	start := time.Now()
	g := group{servers: []*redistest.Server{redistest.Start(t, redistest.Config{Persistent: true})}}
	for range replicas {
		g.servers = append(g.servers, redistest.Start(t, redistest.Config{Persistent: true, ReplicaOf: g.servers[0]}))
	}
	g.Sentinels = redistest.StartSentinels(t, "main", g.servers[0], 3, downAfter)
	t.Logf("a group of 1 and %d servers and 3 sentinels was ready after %v", replicas, time.Since(start))
	return g
}

// at returns the server with the address.
func (g group) at(t *testing.T, addr string) *redistest.Server {
	t.Helper()
	for _, s := range g.servers {
		if s.Addr == addr {
			return s
		}
	}
	t.Fatalf("%q is none of the group's servers", addr)
	return nil
}

// failOver kills the primary, waits for the next one and returns both.
func (g group) failOver(t *testing.T) (dead, next *redistest.Server) {
	t.Helper()
	dead = g.at(t, g.Primary())
	dead.Kill()
	start := time.Now()
	next = g.at(t, g.WaitPrimary(dead.Addr))
	t.Logf("the next primary was there after %v", time.Since(start))
	return dead, next
}

func TestSentinels(t *testing.T) {
	t.Parallel()
	g := startGroup(t, 2)
	hosts, name, _ := strings.Cut(strings.TrimPrefix(g.URL(), "redis+sentinel://"), "/")
	if len(strings.Split(hosts, ",")) != 3 || name != "main" {
		t.Errorf("the URL is %s", g.URL())
	}
	for range 2 {
		before := g.at(t, g.Primary())
		write(t, before, "key", "of "+before.Addr)
		if err := before.Client().Wait(t.Context(), 2, patience).Err(); err != nil {
			t.Fatal(err)
		}
		dead, next := g.failOver(t)
		if got := read(t, next, "key"); dead != before || next == before || got != "of "+before.Addr {
			t.Errorf("%s died, %s followed and holds %q; want what %s had", dead.Addr, next.Addr, got, before.Addr)
		}
		start := time.Now()
		g.Rejoin(dead)
		g.Settle(2)
		t.Logf("the old primary had joined again after %v", time.Since(start))
		write(t, next, "later", next.Addr)
		for _, s := range g.servers {
			until(t, "a write at each server", func() bool { return read(t, s, "later") == next.Addr })
		}
	}
}

// TestSentinelsRestore: without Rejoin, a former primary comes back as a primary, until the
// sentinels find it.
func TestSentinelsRestore(t *testing.T) {
	t.Parallel()
	g := startGroup(t, 1)
	dead, next := g.failOver(t)
	dead.Restart()
	if role := role(t, dead); role != "master" {
		t.Errorf("the old primary came back as a %s", role)
	}
	until(t, "that the old primary is a replica", func() bool { return role(t, dead) == "slave" })
	g.Settle(1)
	dead.Restart()
	if role := role(t, dead); role != "slave" {
		t.Errorf("the replica came back as a %s", role)
	}
	next.Restart()
	if role := role(t, next); role != "master" || g.Primary() != next.Addr {
		t.Errorf("the promoted server came back as a %s, the primary is %s", role, g.Primary())
	}
}

func role(t *testing.T, s *redistest.Server) string {
	t.Helper()
	info, err := s.Client().InfoMap(t.Context(), "replication").Result()
	if err != nil {
		t.Fatal(err)
	}
	return info["Replication"]["role"]
}

// TestSentinelsMajority: two sentinels of three are enough for a failover, one is not enough
// to name a primary.
func TestSentinelsMajority(t *testing.T) {
	t.Parallel()
	g := startGroup(t, 1)
	g.Nodes[0].Kill()
	dead, next := g.failOver(t)
	g.Rejoin(dead)
	g.Nodes[1].Kill()
	if got := g.Primary(); got != "" {
		t.Errorf("one sentinel of three names a primary: %q", got)
	}
	g.Nodes[0].Restart()
	g.Nodes[1].Restart()
	g.Settle(1)
	until(t, "that the sentinels name the promoted server", func() bool { return g.Primary() == next.Addr })
	g.Nodes[2].Pause()
	if got := g.Primary(); got != next.Addr {
		t.Errorf("with a silent sentinel of three the primary is %q; want %s", got, next.Addr)
	}
}

// TestSentinelsForget: a replica that lags is promoted without the writes that it has not
// received, and sentinels do not make it bypass the proxy before.
func TestSentinelsForget(t *testing.T) {
	t.Parallel()
	primary := redistest.Start(t, redistest.Config{})
	way := redistest.StartProxy(t, primary.Addr)
	replica := redistest.Start(t, redistest.Config{ReplicaOf: primary, Through: way.Addr})
	g := group{redistest.StartSentinels(t, "main", primary, 3, downAfter), []*redistest.Server{primary, replica}}

	until(t, "that a sentinel was refused", func() bool {
		stats, err := replica.Client().InfoMap(t.Context(), "commandstats").Result()
		return err == nil && strings.Contains(stats["Commandstats"]["cmdstat_slaveof"], "rejected_calls=") &&
			!strings.Contains(stats["Commandstats"]["cmdstat_slaveof"], "rejected_calls=0")
	})
	info, err := replica.Client().InfoMap(t.Context(), "replication").Result()
	_, port, _ := net.SplitHostPort(way.Addr)
	if got := info["Replication"]["master_port"]; err != nil || got != port {
		t.Fatalf("the replica replicates from port %s, %v; want the proxy at %s", got, err, port)
	}
	write(t, primary, "known", "1")
	until(t, "the write at the replica", func() bool { return read(t, replica, "known") == "1" })
	way.Latency(redistest.Replies, time.Hour, 0)
	write(t, primary, "forgotten", "2")
	primary.Kill()
	way.Cut()
	if next := g.WaitPrimary(primary.Addr); next != replica.Addr {
		t.Fatalf("the next primary is %s; want %s", next, replica.Addr)
	}
	if known, forgotten := read(t, replica, "known"), read(t, replica, "forgotten"); known != "1" || forgotten != "" {
		t.Errorf("the promoted replica holds %q and %q; want the first only", known, forgotten)
	}
	g.Rejoin(primary)
	if dead, next := g.failOver(t); dead != replica || next != primary {
		t.Errorf("after Rejoin %s died and %s followed", dead.Addr, next.Addr)
	}
	g.Rejoin(replica)
}
