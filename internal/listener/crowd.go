package listener

import (
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"gatehouse.example/internal/fair"
)

// DefaultConnections is how many connections a server has at once if it is not told.
const DefaultConnections = 10_000

// crowd is everybody who is connected. One address, or one /64 of IPv6, gets an eighth of the
// places, the networks around it a quarter and a half, so that nobody who opens connections
// and lets them idle keeps everybody else out.
type crowd struct {
	most    int
	trusted []netip.Prefix
	log     *slog.Logger
	now     func() time.Time

	mu      sync.Mutex
	all     int
	from    map[string]int // by network; nothing is kept of networks without connections
	refused int            // since the log told of it
	told    time.Time
}

// shares are the parts of the places that networks get, the narrowest first.
var shares = [...]int{8, 4, 2}

// tellEvery is how often the log tells that connections are refused.
const tellEvery = time.Minute

func newCrowd(c Config) *crowd {
	most := c.Connections
	if most <= 0 {
		most = DefaultConnections
	}
	if files := openFiles() / 2; files > 0 && files < most {
		c.Log.Info("fewer connections than asked for are taken: half of the files that this process may open", "connections", files, "asked", most)
		most = files
	}
	return &crowd{most: most, trusted: c.TrustedProxies, log: c.Log, now: time.Now, from: map[string]int{}}
}

// over returns a listener that lets in whom there is a place for.
func (c *crowd) over(l net.Listener) net.Listener { return &door{l, c} }

// door closes a connection that there is no place for as soon as it is there. A place is
// taken before anything is read.
type door struct {
	net.Listener
	*crowd
}

// Accept returns the next connection that has a place.
func (d *door) Accept() (net.Conn, error) {
	for {
		conn, err := d.Listener.Accept()
		if err != nil {
			return nil, err
		}
		networks := d.networks(conn.RemoteAddr())
		if d.enter(networks) {
			return &guest{Conn: conn, leave: sync.OnceFunc(func() { d.leave(networks) })}, nil
		}
		d.tell(conn.RemoteAddr())
		_ = conn.Close()
	}
}

// guest gives its place back when it is closed.
type guest struct {
	net.Conn
	leave func()
}

// Close gives the place back.
func (g *guest) Close() error {
	defer g.leave()
	return g.Conn.Close()
}

// CloseWrite ends one direction: net/http lets an answer arrive before it closes a connection
// on which something was not read.
func (g *guest) CloseWrite() error {
	if half, ok := g.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// networks are those whose shares a connection takes from: none for a trusted proxy.
func (c *crowd) networks(from net.Addr) []string {
	peer, _ := netip.ParseAddrPort(from.String()) // an invalid address is a network of its own
	addr := peer.Addr().Unmap()
	for _, proxy := range c.trusted {
		if proxy.Contains(addr) {
			return nil
		}
	}
	return fair.Networks(addr)
}

func (c *crowd) enter(networks []string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	full := c.all >= c.most
	for i, network := range networks {
		full = full || c.from[network] >= max(1, c.most/shares[i])
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

func (c *crowd) leave(networks []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all--
	for _, network := range networks {
		if c.from[network]--; c.from[network] == 0 {
			delete(c.from, network)
		}
	}
}

// tell counts a refusal, and says once in a while how many there were.
func (c *crowd) tell(last net.Addr) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refused++
	if now := c.now(); now.Sub(c.told) >= tellEvery {
		c.log.Warn("connections are refused: there are as many as there may be, in all or from one network", "refused", c.refused, "open", c.all, "last", last.String())
		c.told, c.refused = now, 0
	}
}
