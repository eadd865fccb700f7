//go:build e2e

package redis_test

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gatehouse.example/storage/redis"
	"gatehouse.example/storage/redis/redistest"
)

// durable are settings without warnings.
var durable = []string{"--appendonly", "yes", "--appendfsync", "always", "--repl-timeout", "10", "--repl-ping-replica-period", "2"}

// mustWarn opens a store and expects one warning with each of these parts, in this order.
func mustWarn(t *testing.T, url string, parts ...string) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for warnings := startWarnings(t, url); !slices.EqualFunc(warnings, parts, strings.Contains); warnings = startWarnings(t, url) {
		if time.Now().After(deadline) { // a server may not list all others yet
			t.Fatalf("warnings %q, want %q", warnings, parts)
		}
	}
}

func startWarnings(t *testing.T, url string) (warnings []string) {
	t.Helper()
	var mu sync.Mutex
	b := open(t, redis.Options{URL: url, OnWarning: func(w string) {
		mu.Lock()
		defer mu.Unlock()
		warnings = append(warnings, w)
	}})
	defer b.Close()
	mu.Lock()
	defer mu.Unlock()
	return warnings
}

// TestSentinelSettings: Open warns once of each setting of sentinels and servers that weakens a
// promise, and of nothing when there is none, or when it may not ask.
func TestSentinelSettings(t *testing.T) {
	primary := redistest.Start(t, redistest.Config{Args: durable})
	first := redistest.Start(t, redistest.Config{ReplicaOf: primary, Args: durable})
	redistest.Start(t, redistest.Config{ReplicaOf: primary, Args: durable})
	group := redistest.StartSentinels(t, "main", primary, 3, 5*time.Second)
	mustWarn(t, group.URL())

	set := func(server *redistest.Server, words ...any) {
		if err := server.Client().Do(t.Context(), words...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	set(primary, "config", "set", "repl-timeout", "60")
	set(first, "config", "set", "replica-priority", "10")
	for _, sentinel := range group.Nodes {
		set(sentinel, "sentinel", "set", "main", "quorum", "1")
	}
	set(group.Nodes[0], "sentinel", "set", "main", "down-after-milliseconds", "60000")
	eventually(t, "that sentinels know the priorities", func() bool {
		var warnings []string
		open(t, redis.Options{URL: group.URL(), OnWarning: func(w string) { warnings = append(warnings, w) }}).Close()
		return len(warnings) == 4
	})
	mustWarn(t, group.URL(), "down-after-milliseconds is 60000", "quorum is 1 of 3", "repl-timeout is 60", "replica-priority")

	set(primary, "acl", "setuser", "default", "-config|get")
	mustWarn(t, group.URL(), "down-after-milliseconds is 60000", "quorum is 1 of 3", "replica-priority")
}

// TestClusterSettings: the same in a cluster, whose replicas are asked too: their settings decide
// on takeovers.
func TestClusterSettings(t *testing.T) {
	c := redistest.StartCluster(t, 3, 2, redistest.Config{Args: append([]string{
		"--cluster-node-timeout", "5000", "--min-replicas-to-write", "1", "--min-replicas-max-lag", "4",
	}, durable...)})
	mustWarn(t, c.URL())

	set := func(node int, name, value string) {
		if err := c.Nodes[node].Client().ConfigSet(t.Context(), name, value).Err(); err != nil {
			t.Fatal(err)
		}
	}
	set(0, "cluster-allow-reads-when-down", "yes")
	set(1, "min-replicas-to-write", "0")
	set(2, "cluster-node-timeout", "60000")
	set(3, "cluster-replica-validity-factor", "0")
	set(8, "cluster-allow-replica-migration", "yes")
	set(8, "repl-timeout", "60")
	mustWarn(t, c.URL(), "a primary whose replicas are away answers alone", "cluster-allow-reads-when-down is yes", "cluster-allow-replica-migration is yes",
		"cluster-node-timeout is 60000", "cluster-replica-validity-factor is 0", "repl-timeout is 60")

	for _, node := range c.Nodes {
		if err := node.Client().ACLSetUser(t.Context(), "default", "-config|get").Err(); err != nil {
			t.Fatal(err)
		}
	}
	mustWarn(t, c.URL())
}
