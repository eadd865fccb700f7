package redistest

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"
)

// slots is the number of slots of a cluster.
const slots = 16384

// batch is how many keys of a slot move at a time.
const batch = 10

// Cluster is a cluster whose slots are spread over its masters. A node that does not answer for a
// second counts as failed; a replica takes the place of its master.
type Cluster struct {
	// Nodes are the masters, then their replicas: the first ones, one for each master, then the
	// second ones. Failovers change the roles, not the order.
	Nodes []*Server

	t    testing.TB
	ways *ways // nil if the nodes are reached directly
}

// StartCluster starts a cluster with this many masters, and replicas of each, and returns when
// every node finds it in order. The configuration is that of each server; its fields ReplicaOf
// and Through do not apply to a cluster.
func StartCluster(t testing.TB, masters, replicas int, config Config) *Cluster {
	t.Helper()
	c := &Cluster{t: t}
	c.start(masters, replicas, config)
	return c
}

// launch starts the next node.
func (c *Cluster) launch(config Config) {
	c.t.Helper()
	_, bus, _ := net.SplitHostPort(FreeAddress(c.t))
	args := []string{"--cluster-enabled", "yes", "--cluster-port", bus, "--cluster-node-timeout", "1000", "--cluster-allow-replica-migration", "no"}
	if c.ways != nil {
		args = append(args, c.ways.args(len(c.Nodes))...)
	}
	server := Start(c.t, Config{Persistent: config.Persistent, Args: append(args, config.Args...)})
	if c.ways != nil {
		c.ways.open(len(c.Nodes), server, bus)
	}
	c.Nodes = append(c.Nodes, server)
}

func (c *Cluster) start(masters, replicas int, config Config) {
	c.t.Helper()
	for range masters * (1 + replicas) {
		c.launch(config)
	}
	ctx, cancel := context.WithTimeout(context.Background(), settleTime)
	defer cancel()
	for i, node := range c.Nodes {
		c.must(node.client.Do(ctx, "cluster", "set-config-epoch", i+1).Err())
		if i < masters {
			c.must(node.client.ClusterAddSlotsRange(ctx, i*slots/masters, (i+1)*slots/masters-1).Err())
		}
	}
	c.meet(ctx)
	for i, node := range c.Nodes[masters:] {
		c.must(node.client.ClusterReplicate(ctx, c.id(ctx, c.Nodes[i%masters])).Err())
	}
	c.Settle()
}

// meet introduces each node to every other, which is faster than waiting for gossip.
func (c *Cluster) meet(ctx context.Context) {
	c.t.Helper()
	for i, node := range c.Nodes {
		for _, other := range c.Nodes[:i] {
			_, port, _ := net.SplitHostPort(c.at(other))
			c.must(node.client.Do(ctx, "cluster", "meet", host, port, c.bus(ctx, other)).Err())
		}
	}
	c.await("that all nodes list each other", func(ctx context.Context, node *Server) error {
		known, err := node.view(ctx)
		if err == nil && len(known) != len(c.Nodes) {
			err = fmt.Errorf("%s lists %d nodes", node.Addr, len(known))
		}
		return err
	})
}

// URL returns the redis+cluster:// URL of the cluster.
func (c *Cluster) URL() string {
	var all []string
	for _, node := range c.Nodes {
		all = append(all, c.at(node))
	}
	return "redis+cluster://" + strings.Join(all, ",")
}

// Settle waits until each running node finds the cluster in order and lists every other running
// node as that lists itself: that it is connected, whose replica it is, which slots it has.
// Replicas are in step.
func (c *Cluster) Settle() {
	c.t.Helper()
	c.await("that the cluster agrees", func(ctx context.Context, node *Server) error {
		info, err := node.client.ClusterInfo(ctx).Result()
		if state := fields(info)["cluster_state"]; err == nil && state != "ok" {
			err = fmt.Errorf("%s reports the state %q", node.Addr, state)
		}
		if err != nil {
			return err
		}
		return c.agree(ctx, node)
	})
}

// agree compares what one node lists with what each of the others lists about itself.
func (c *Cluster) agree(ctx context.Context, node *Server) error {
	known, err := node.view(ctx)
	if err != nil {
		return err
	}
	for _, other := range c.Nodes {
		if other.ended() {
			continue
		}
		itself, err := other.view(ctx)
		if err != nil {
			return err
		}
		says, is := known[c.at(other)], itself[c.at(other)]
		if !says.connected || says.master != is.master || !slices.Equal(says.slots, is.slots) {
			return fmt.Errorf("%s lists %s as %+v, which lists itself as %+v", node.Addr, other.Addr, says, is)
		}
		if is.master == "-" {
			continue
		}
		if info, err := section(ctx, other, "replication"); err != nil || info["master_link_status"] != "up" {
			return fmt.Errorf("the link of replica %s is %q, %v", other.Addr, info["master_link_status"], err)
		}
	}
	return nil
}

// Slot returns the slot of a key.
func (c *Cluster) Slot(key string) int {
	c.t.Helper()
	for _, node := range c.Nodes {
		if !node.ended() {
			n, err := node.client.ClusterKeySlot(context.Background(), key).Result()
			c.must(err)
			return int(n)
		}
	}
	c.t.Fatal("redistest: no node of the cluster runs")
	return 0
}

// Owner returns the master of the slot according to the nodes that answer. While they do not
// agree, the one with the highest epoch counts, as it will among the nodes. While none answers, as
// on a machine that stalls, it waits.
func (c *Cluster) Owner(slot int) (owner *Server) {
	c.t.Helper()
	await(c.t, "that a node lists an owner of a slot", func(ctx context.Context) error {
		if owner = c.ownerNow(ctx, slot); owner == nil {
			return fmt.Errorf("no node lists an owner of slot %d", slot)
		}
		return nil
	})
	return owner
}

// ownerNow returns nil if no node lists an owner.
func (c *Cluster) ownerNow(ctx context.Context, slot int) (owner *Server) {
	latest := -1
	for _, node := range c.Nodes {
		if node.ended() {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		known, _ := node.view(ctx) // nothing, if it is paused
		cancel()
		for _, server := range c.Nodes {
			if seen := known[c.at(server)]; seen.has(slot) && seen.epoch > latest {
				owner, latest = server, seen.epoch
			}
		}
	}
	return owner
}

// MigrateSlot moves a slot with its keys from one master to another while the cluster works. Keys
// move in batches of ten. If between is not nil, it is called before the first batch and after
// each; until it returns, the slot stays half moved.
func (c *Cluster) MigrateSlot(slot int, from, to *Server, between func()) {
	c.t.Helper()
	if between == nil {
		between = func() {}
	}
	ctx := context.Background()
	source, target := c.id(ctx, from), c.id(ctx, to)
	c.must(to.client.Do(ctx, "cluster", "setslot", slot, "importing", source).Err())
	c.must(from.client.Do(ctx, "cluster", "setslot", slot, "migrating", target).Err())
	between()
	for {
		keys, err := from.client.ClusterGetKeysInSlot(ctx, slot, batch).Result()
		c.must(err)
		if len(keys) == 0 {
			break
		}
		c.must(migrate(ctx, from, to, keys))
		between()
	}
	// The new owner first: otherwise the slot would have no owner for a moment.
	for _, node := range append([]*Server{to, from}, c.others(ctx, to, from)...) {
		c.must(node.client.Do(ctx, "cluster", "setslot", slot, "node", target).Err())
	}
}

// migrate moves keys. A key that has expired meanwhile is not an error.
func migrate(ctx context.Context, from, to *Server, keys []string) error {
	_, port, _ := net.SplitHostPort(to.Addr)
	args := []any{"migrate", host, port, "", 0, (10 * time.Second).Milliseconds(), "keys"}
	for _, key := range keys {
		args = append(args, key)
	}
	return from.client.Do(ctx, args...).Err()
}

// others returns the running masters except some.
func (c *Cluster) others(ctx context.Context, without ...*Server) (masters []*Server) {
	c.t.Helper()
	for _, node := range c.Nodes {
		if node.ended() || slices.Contains(without, node) {
			continue
		}
		known, err := node.view(ctx)
		c.must(err)
		if known[c.at(node)].master == "-" {
			masters = append(masters, node)
		}
	}
	return masters
}

// id returns the id of a node in the cluster.
func (c *Cluster) id(ctx context.Context, node *Server) string {
	c.t.Helper()
	id, err := node.client.Do(ctx, "cluster", "myid").Text()
	c.must(err)
	return id
}

func (c *Cluster) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatalf("redistest: cluster: %v", err)
	}
}

// await waits until check succeeds at each running node.
func (c *Cluster) await(what string, check func(context.Context, *Server) error) {
	c.t.Helper()
	for _, node := range c.Nodes {
		if !node.ended() {
			await(c.t, what, func(ctx context.Context) error { return check(ctx, node) })
		}
	}
}
