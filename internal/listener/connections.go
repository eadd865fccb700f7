package listener

import (
	"cmp"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"gatehouse.example/internal/fair"
)

// DefaultConnections is the default of [Config].Connections.
const DefaultConnections = 10_000

// connections counts the open connections, and requests of HTTP/2 as [connections.weigh] says. One address, or one /64 of IPv6, gets an eighth of the
// places, and the networks around it a quarter and a half, so that a client with many idle
// connections does not keep other clients out.
type connections struct {
	most    int
	trusted []netip.Prefix
	log     *slog.Logger
	now     func() time.Time
	stall   time.Duration // in which a client must take something of an answer that waits for it

	mu      sync.Mutex
	all     int
	from    map[string]int // by network; networks without connections are removed
	refused int            // since the last line in the log
	logged  time.Time

	refusedEver    int64
	streamsRefused atomic.Int64 // requests of HTTP/2
}

// divisors determine the part of the places that a network may take, the narrowest first.
var divisors = [...]int{8, 4, 2}

// logEvery is the shortest time between two log lines about refused connections.
const logEvery = time.Minute

func newConnections(c Config) *connections {
	most := c.Connections
	if most <= 0 {
		most = DefaultConnections
	}
	if files := openFiles() / 2; files > 0 && files < most {
		c.Log.Info("fewer connections than configured are accepted: half of the files that this process may open", "connections", files, "asked", most)
		most = files
	}
	return &connections{most: most, trusted: c.TrustedProxies, log: c.Log, now: time.Now, stall: cmp.Or(c.stall, writeTime), from: map[string]int{}}
}

// limit returns a listener that accepts connections while there are places for them.
func (c *connections) limit(l net.Listener) net.Listener { return &limitedListener{l, c} }

// limitedListener closes connections without a place right after it accepts them. A connection
// takes its place before anything is read from it.
type limitedListener struct {
	net.Listener
	*connections
}

// Accept returns the next connection that has a place.
func (d *limitedListener) Accept() (net.Conn, error) {
	for {
		conn, err := d.Listener.Accept()
		if err != nil {
			return nil, err
		}
		networks := d.networks(conn.RemoteAddr())
		if d.enter(networks) {
			boundUnsent(conn)
			return &limitedConn{Conn: conn, stall: d.stall, leave: sync.OnceFunc(func() { d.leave(networks) })}, nil
		}
		d.logRefusal(conn.RemoteAddr())
		_ = conn.Close()
	}
}

// limitedConn gives its place back when it is closed, and bounds how long a client may leave an
// answer unread.
type limitedConn struct {
	net.Conn
	leave func()
	stall time.Duration

	mu       sync.Mutex
	set, own time.Time // the write deadlines that were set and that of a Write, zero for none
}

// Close closes the connection and gives its place back.
func (g *limitedConn) Close() error {
	defer g.leave()
	return g.Conn.Close()
}

// CloseWrite closes one direction. net/http uses it to let an answer arrive before it closes a
// connection with unread data.
func (g *limitedConn) CloseWrite() error {
	if half, ok := g.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// networks returns the networks for which a connection counts: none for a trusted proxy.
func (c *connections) networks(from net.Addr) []string {
	peer, _ := netip.ParseAddrPort(from.String()) // an invalid address is a network of its own
	addr := peer.Addr().Unmap()
	for _, proxy := range c.trusted {
		if proxy.Contains(addr) {
			return nil
		}
	}
	return fair.Networks(addr)
}

func (c *connections) enter(networks []string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	full := c.all >= c.most
	for i, network := range networks {
		full = full || c.from[network] >= max(1, c.most/divisors[i])
	}
	if full {
		return false
	}
	c.all++
	for _, network := range networks {
		c.from[network]++
	}
	return true
}

func (c *connections) leave(networks []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all--
	for _, network := range networks {
		if c.from[network]--; c.from[network] == 0 {
			delete(c.from, network)
		}
	}
}

// logRefusal counts a refused connection, and logs their number at most once in logEvery.
func (c *connections) logRefusal(last net.Addr) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refused++
	c.refusedEver++
	if now := c.now(); now.Sub(c.logged) >= logEvery {
		c.log.Warn("connections are refused: there are too many, in all or from one network", "refused", c.refused, "open", c.all, "last", last.String())
		c.logged, c.refused = now, 0
	}
}
