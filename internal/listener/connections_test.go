package listener

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// limited is a listener with 64 places that accepts connections from any address.
type limited struct {
	pipeListener
	t           *testing.T
	connections *connections
}

func newLimited(t *testing.T, trusted ...string) *limited {
	c := Config{Connections: 64, Log: silent}
	for _, network := range trusted {
		c.TrustedProxies = append(c.TrustedProxies, netip.MustParsePrefix(network))
	}
	s := New(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }), c)
	l := pipeListener{make(chan net.Conn), make(chan struct{})}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() {
		close(l.ended)
		_ = s.Close()
	})
	return &limited{l, t, s.connections}
}

// connect opens connections from an address and returns those that were accepted: a request on
// them is answered.
func (c *limited) connect(addr string, count int) (in []net.Conn) {
	c.t.Helper()
	for range count {
		client, server := net.Pipe()
		c.conns <- from{server, net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(addr), 1))}
		_ = client.SetDeadline(time.Now().Add(patience))
		_, err := io.WriteString(client, "GET / HTTP/1.1\r\nHost: example.com\r\n\r\n")
		if err == nil {
			_, err = io.ReadFull(client, make([]byte, len("HTTP/1.1 200")))
		}
		if err == nil {
			go func() { _, _ = io.Copy(io.Discard, client) }()
			in = append(in, client)
		}
	}
	return in
}

// One address with ever more connections gets an eighth of the places, its network a quarter, and
// other networks are served as well.
func TestOneNetworkCannotTakeAllConnections(t *testing.T) {
	c := newLimited(t)
	flood := c.connect("192.0.2.1", 100)
	if len(flood) != 8 {
		t.Errorf("one address has %d of 64 places", len(flood))
	}
	if n := len(c.connect("192.0.2.2", 5)) + len(c.connect("192.0.2.3", 100)); n != 8 {
		t.Errorf("its neighbours have %d places, together with it a quarter are 16", n)
	}
	if n := len(c.connect("198.51.100.7", 1)); n != 1 {
		t.Error("another network is not accepted")
	}
	if n := len(c.connect("2001:db8:0:1::1", 4)) + len(c.connect("2001:db8:0:1:ffff::2", 100)); n != 8 {
		t.Errorf("one /64 has %d places", n)
	}
	if n := len(c.connect("2001:db8:0:2::1", 100)); n != 8 {
		t.Errorf("another /64 of the same /56 has %d places", n)
	}
	if n := len(c.connect("2001:db8:0:3::1", 100)); n != 0 {
		t.Errorf("the /56 has %d places more than a quarter", n)
	}
	if n := len(c.connect("::ffff:192.0.2.1", 1)); n != 0 {
		t.Error("an IPv4 address that is written as IPv6 is another one")
	}
	for _, conn := range flood[:3] {
		_ = conn.Close()
	}
	c.until(30) // 16 and 1 and 16 places were taken, three are free
	if n := len(c.connect("192.0.2.1", 100)); n != 3 {
		t.Errorf("%d places come back with the connections that ended", n)
	}
}

// until waits for the number of open connections.
func (c *limited) until(want int) {
	c.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		c.connections.mu.Lock()
		all := c.connections.all
		c.connections.mu.Unlock()
		if all == want {
			return
		}
		if time.Now().After(end) {
			c.t.Fatalf("%d connections are open, want %d", all, want)
		}
	}
}

// The bound on all connections applies to a trusted proxy, and the bound on a network does not.
func TestAllConnectionsAreBounded(t *testing.T) {
	c := newLimited(t, "10.0.0.0/8", "fd00::/8")
	if n := len(c.connect("10.0.0.1", 30)) + len(c.connect("fd00::1", 30)); n != 60 {
		t.Errorf("%d connections of proxies are let in", n)
	}
	if n := len(c.connect("192.0.2.1", 100)); n != 4 {
		t.Errorf("%d places are left, want 4", n)
	}
	if n := len(c.connect("10.0.0.1", 1)); n != 0 {
		t.Error("a proxy has more places than there are")
	}
}

// Networks without connections take no memory, and the number of refused connections is logged
// once in a minute.
func TestRefusedConnectionsCostNothing(t *testing.T) {
	c := newLimited(t)
	var log bytes.Buffer
	now := time.Now()
	c.connections.log, c.connections.now = slog.New(slog.NewTextHandler(&log, nil)), func() time.Time { return now }
	in := c.connect("192.0.2.1", 1000)
	now = now.Add(logEvery)
	c.connect("192.0.2.1", 1)
	if lines := strings.Count(log.String(), "level=WARN"); lines != 2 || !strings.Contains(log.String(), "refused=1 ") || !strings.Contains(log.String(), "refused=992 ") {
		t.Errorf("%d lines for 993 refusals:\n%s", lines, log.String())
	}
	if got := (&Server{connections: c.connections}).Figures(); got.Refused != 993 || got.Open != 8 {
		t.Errorf("%+v", got)
	}
	for _, conn := range in {
		_ = conn.Close()
	}
	c.until(0)
	if len(c.connections.from) != 0 {
		t.Errorf("networks without connections are remembered: %v", c.connections.from)
	}
}

// A connection gives its place back once, however often it is closed. Where there is one place, any
// network may have it.
func TestPlaceComesBackOnce(t *testing.T) {
	c := newConnections(Config{Connections: 1, Log: silent})
	l := pipeListener{make(chan net.Conn, 1), make(chan struct{})}
	_, server := net.Pipe()
	l.conns <- from{server, net.TCPAddrFromAddrPort(netip.MustParseAddrPort("192.0.2.1:1"))}
	if !c.enter(c.networks(net.TCPAddrFromAddrPort(netip.MustParseAddrPort("198.51.100.7:1")))) {
		t.Fatal("nobody gets the one place")
	}
	c.leave(c.networks(net.TCPAddrFromAddrPort(netip.MustParseAddrPort("198.51.100.7:1"))))
	conn, err := c.limit(l).Accept()
	if err != nil || c.all != 1 {
		t.Fatalf("%d places are taken, %v", c.all, err)
	}
	for range 3 {
		_ = conn.Close()
	}
	if c.all != 0 || len(c.from) != 0 {
		t.Errorf("%d places are taken, %v", c.all, c.from)
	}
}

// A trusted proxy is known however its address is written.
func TestProxyWrittenAsIPv6(t *testing.T) {
	c := newConnections(Config{Log: silent, TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
	for addr, want := range map[written]int{"10.0.0.1:1": 0, "[::ffff:10.0.0.1]:1": 0, "11.0.0.1:1": 2, "[::ffff:11.0.0.1]:1": 2, "[fd00::1]:1": 3, "@": 1} {
		if networks := c.networks(addr); len(networks) != want {
			t.Errorf("%s counts for %q", addr, networks)
		}
	}
}

// written is an address as a listener writes it.
type written string

func (written) Network() string  { return "tcp" }
func (w written) String() string { return string(w) }

// The files that the process may open bound the connections too.
func TestFilesAreLeft(t *testing.T) {
	files := openFiles()
	if files == 0 {
		t.Skip("not known here")
	}
	if most := newConnections(Config{Connections: 1 << 30, Log: silent}).most; most != files/2 {
		t.Errorf("%d connections with %d files", most, files)
	}
	if most := newConnections(Config{Log: silent}).most; most != min(DefaultConnections, files/2) {
		t.Errorf("%d connections by default", most)
	}
}
