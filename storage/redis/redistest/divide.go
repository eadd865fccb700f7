package redistest

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
)

// Outside is the side of a divided cluster that its clients reach.
type Outside int

// What clients reach while a cluster is divided.
const (
	ReachesAll  Outside = iota // both sides, which do not reach each other
	ReachesPart                // only the part that was divided off
	ReachesRest                // only the rest
)

// StartDivisible starts a cluster as StartCluster does that [Cluster.Divide] can divide. URL has
// the addresses of proxies that a division affects; those of the servers stay reachable for the
// test.
func StartDivisible(t testing.TB, masters, replicas int, config Config) *Cluster {
	t.Helper()
	c := &Cluster{t: t, ways: newWays(t, masters*(1+replicas))}
	c.start(masters, replicas, config)
	return c
}

// Divide drops everything between the nodes of a part and the others, and between clients and the
// nodes that they do not reach. Connections stay, as when a cable is cut. It replaces an earlier
// division.
func (c *Cluster) Divide(outside Outside, part ...*Server) {
	indexes := []int{}
	for _, node := range part {
		indexes = append(indexes, slices.Index(c.Nodes, node))
	}
	c.ways.divide(indexes, outside)
}

// Join ends a division.
func (c *Cluster) Join() { c.ways.divide(nil, ReachesAll) }

// at returns the address under which the cluster lists a node.
func (c *Cluster) at(node *Server) string {
	if c.ways == nil {
		return node.Addr
	}
	return c.ways.fronts[slices.Index(c.Nodes, node)].client.Addr().String()
}

// bus returns the port at which other nodes reach a node.
func (c *Cluster) bus(ctx context.Context, node *Server) string {
	c.t.Helper()
	if c.ways != nil {
		_, port, _ := net.SplitHostPort(c.ways.fronts[slices.Index(c.Nodes, node)].bus.Addr().String())
		return port
	}
	bus, err := node.client.ConfigGet(ctx, "cluster-port").Result()
	c.must(err)
	return bus["cluster-port"]
}

// ways are the proxies in front of the nodes of a cluster. Each node has a front, a pair of
// addresses that it announces in place of its own, and dials from an address of its own, so that
// the connection between any two can be cut.
type ways struct {
	t      testing.TB
	fronts []*front
	served sync.WaitGroup

	mu        sync.Mutex
	part      []int // the nodes of one side, nil while there is no division
	outside   Outside
	crossings map[*crossing]struct{}
	closed    bool
}

// front is a node's pair of listeners.
type front struct{ client, bus net.Listener }

// outsider is the index of dialers that are not nodes.
const outsider = -1

// crossing is one connection through a front.
type crossing struct {
	from, to int
	ends     [2]net.Conn
	torn     bool // bytes are missing
}

func newWays(t testing.TB, nodes int) *ways {
	t.Helper()
	w := &ways{t: t, crossings: map[*crossing]struct{}{}}
	for range nodes {
		w.fronts = append(w.fronts, &front{client: listen(t), bus: listen(t)})
	}
	t.Cleanup(w.close)
	return w
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	var err error
	for range 10 { // another test may take a free address first
		var l net.Listener
		if l, err = net.Listen("tcp", FreeAddress(t)); err == nil {
			return l
		}
	}
	t.Fatalf("redistest: %v", err)
	return nil
}

// source returns the address from which a node dials.
func source(node int) string { return fmt.Sprintf("127.0.1.%d", node+1) }

// args returns the settings with which a node uses its front.
func (w *ways) args(node int) []string {
	_, client, _ := net.SplitHostPort(w.fronts[node].client.Addr().String())
	_, bus, _ := net.SplitHostPort(w.fronts[node].bus.Addr().String())
	return []string{
		"--bind-source-addr", source(node), "--cluster-announce-ip", host,
		"--cluster-announce-port", client, "--cluster-announce-bus-port", bus,
	}
}

// open makes a running node reachable.
func (w *ways) open(node int, s *Server, bus string) {
	f := w.fronts[node]
	for listener, upstream := range map[net.Listener]string{f.client: s.Addr, f.bus: net.JoinHostPort(host, bus)} {
		w.served.Go(func() { w.accept(node, listener, upstream) })
	}
}

func (w *ways) accept(node int, listener net.Listener, upstream string) {
	for {
		caller, err := listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", upstream)
		if err != nil {
			_ = caller.Close()
			continue
		}
		c := &crossing{from: w.who(caller), to: node, ends: [2]net.Conn{caller, server}}
		w.mu.Lock()
		w.crossings[c] = struct{}{}
		closed := w.closed
		w.mu.Unlock()
		if closed {
			c.close()
		}
		w.served.Go(func() { w.carry(c, caller, server) })
		w.served.Go(func() { w.carry(c, server, caller) })
	}
}

// who returns the node that dials, by its source address.
func (w *ways) who(caller net.Conn) int {
	from, _, _ := net.SplitHostPort(caller.RemoteAddr().String())
	for node := range w.fronts {
		if from == source(node) {
			return node
		}
	}
	return outsider
}

// carry copies one direction until it ends. What arrives on a cut connection is lost.
func (w *ways) carry(c *crossing, from, to net.Conn) {
	defer w.forget(c)
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		if w.lost(c) {
			continue
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

func (w *ways) forget(c *crossing) {
	c.close()
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.crossings, c)
}

func (c *crossing) close() {
	_ = c.ends[0].Close()
	_ = c.ends[1].Close()
}

// lost reports whether bytes of a connection are lost now.
func (w *ways) lost(c *crossing) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	c.torn = c.torn || w.divides(c.from, c.to)
	return c.torn
}

// divides reports whether two nodes are on different sides.
func (w *ways) divides(from, to int) bool {
	in := slices.Contains(w.part, to)
	switch {
	case w.part == nil:
		return false
	case from != outsider:
		return slices.Contains(w.part, from) != in
	case w.outside == ReachesPart:
		return !in
	case w.outside == ReachesRest:
		return in
	}
	return false
}

// divide drops everything between the nodes of a part and the rest. Connections stay until the
// next change, when those that have lost bytes are closed.
func (w *ways) divide(part []int, outside Outside) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.part, w.outside = part, outside
	for c := range w.crossings {
		if c.torn {
			c.close()
		}
	}
}

func (w *ways) close() {
	for _, f := range w.fronts {
		_ = f.client.Close()
		_ = f.bus.Close()
	}
	w.mu.Lock()
	w.closed = true
	for c := range w.crossings {
		c.close()
	}
	w.mu.Unlock()
	w.served.Wait()
}
