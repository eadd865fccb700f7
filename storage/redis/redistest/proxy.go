package redistest

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/Shopify/toxiproxy/v2/stream"
	"github.com/rs/zerolog"
)

// Direction is a direction of bytes through a Proxy.
type Direction int

// Requests go to the server, Replies come from it. A replica dials its primary, so replicated
// data are Replies.
const (
	Requests Direction = iota
	Replies
)

// Proxy is a connection to one server that can be delayed and broken. Delays are those of
// toxiproxy; the listener and the connections are its own, so that an open connection can be
// reset and Close ends all goroutines.
//
// A fault applies to open and to later connections, until Clear.
type Proxy struct {
	// Addr is host:port, the same also after Cut and Restore.
	Addr string

	t        testing.TB
	upstream string
	server   *toxiproxy.ApiServer
	delays   *toxiproxy.ToxicCollection
	links    sync.WaitGroup // one for each direction of each connection

	order sync.Mutex     // one change at a time
	stop  func()         // ends what Restore began, nil after Cut
	serve sync.WaitGroup // goroutines that Restore started

	mu    sync.RWMutex // guards the following fields, and the faults of pairs
	pairs map[*pair]struct{}
	hole  [2]bool // by Direction
	reset [2]bool
	sever func(from, to net.Addr) bool // nil for none
	count int
}

// pair is one connection: from the client to the proxy and on to the server.
type pair struct {
	proxy          *Proxy
	client, server *net.TCPConn
	torn           [2]bool // bytes are missing, by Direction
	open           int     // directions
}

// StartProxy starts a proxy of the server at upstream.
func StartProxy(t testing.TB, upstream string) *Proxy {
	t.Helper()
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	p := &Proxy{
		Addr: FreeAddress(t), t: t, upstream: upstream, server: server,
		delays: toxiproxy.NewProxy(server, "", "", upstream).Toxics, pairs: map[*pair]struct{}{},
	}
	t.Cleanup(p.Close)
	p.Restore()
	return p
}

// Cut closes all connections and refuses new ones, as a machine does after its server has ended.
// Delayed bytes are lost.
func (p *Proxy) Cut() {
	p.order.Lock()
	defer p.order.Unlock()
	p.cut()
}

func (p *Proxy) cut() {
	if p.stop != nil {
		p.stop()
		p.stop = nil
	}
	p.serve.Wait()
	p.each(func(*pair) bool { return true }, (*pair).close)
}

// Restore accepts connections again after Cut.
func (p *Proxy) Restore() {
	p.t.Helper()
	p.order.Lock()
	defer p.order.Unlock()
	if p.stop != nil {
		return
	}
	listener, err := net.Listen("tcp", p.Addr)
	if err != nil {
		p.t.Fatalf("redistest: proxy: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.stop = func() {
		cancel()
		_ = listener.Close()
	}
	p.serve.Go(func() { p.accept(ctx, listener) })
}

// Close ends the proxy, its connections and its goroutines.
func (p *Proxy) Close() {
	p.order.Lock()
	defer p.order.Unlock()
	p.cut()
	p.delays.ResetToxics(context.Background())
	p.links.Wait()
}

// Latency delays the bytes of a direction by about delay, plus or minus jitter, and keeps their
// order. It replaces an earlier Latency; delayed bytes are delivered at once when it changes or
// ends. So a delay of an hour holds everything back until Clear.
func (p *Proxy) Latency(d Direction, delay, jitter time.Duration) {
	p.t.Helper()
	p.order.Lock()
	defer p.order.Unlock()
	name := fmt.Sprint("latency ", stream.Direction(d))
	_ = p.delays.RemoveToxic(context.Background(), name) // there may be none
	config := fmt.Sprintf(`{"name": %q, "type": "latency", "stream": %q, "toxicity": 1, "attributes": {"latency": %d, "jitter": %d}}`,
		name, stream.Direction(d), delay.Milliseconds(), jitter.Milliseconds())
	if _, err := p.delays.AddToxicJson(strings.NewReader(config)); err != nil {
		p.t.Fatalf("redistest: proxy: %v", err)
	}
}

// BlackHole drops the bytes of a direction. The connections stay, but Clear closes those that
// have lost bytes.
func (p *Proxy) BlackHole(d Direction) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hole[d] = true
}

// Sever drops the bytes of both directions between the server and the clients that chosen
// reports, by the address from which they dial and the one that they dialled. It calls chosen
// once for each open connection, and once for each later one.
func (p *Proxy) Sever(chosen func(from, to net.Addr) bool) {
	p.mu.Lock()
	p.sever = chosen
	open := slices.Collect(maps.Keys(p.pairs))
	p.mu.Unlock()
	for _, c := range open {
		c.tear(chosen)
	}
}

// tear drops the bytes of both directions if those reports the client.
func (c *pair) tear(those func(from, to net.Addr) bool) {
	if those == nil || !those(c.client.RemoteAddr(), c.client.LocalAddr()) {
		return
	}
	c.proxy.mu.Lock()
	defer c.proxy.mu.Unlock()
	c.torn = [2]bool{true, true}
}

// Reset sends a TCP reset to both ends of all open connections. Later connections are not
// affected.
func (p *Proxy) Reset() { p.each(func(*pair) bool { return true }, (*pair).abort) }

// ResetOn drops the next bytes of a direction and resets the connection at that moment: with
// Requests the server does not receive a request, with Replies it has executed one and the client
// gets no reply.
func (p *Proxy) ResetOn(d Direction) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reset[d] = true
}

// Clear ends all faults except Cut.
func (p *Proxy) Clear() {
	p.order.Lock()
	defer p.order.Unlock()
	p.mu.Lock()
	p.hole, p.reset, p.sever = [2]bool{}, [2]bool{}, nil
	p.mu.Unlock()
	p.each(func(c *pair) bool { return c.torn != [2]bool{} }, (*pair).close)
	p.delays.ResetToxics(context.Background())
}

// each calls do for the chosen connections.
func (p *Proxy) each(chosen func(*pair) bool, do func(*pair)) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	for c := range p.pairs {
		if chosen(c) {
			do(c)
		}
	}
}

func (p *Proxy) accept(ctx context.Context, listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		p.serve.Go(func() { p.connect(ctx, client.(*net.TCPConn)) })
	}
}

// connect joins a client to the server. Without a server the client's connection is closed.
func (p *Proxy) connect(ctx context.Context, client *net.TCPConn) {
	server, err := new(net.Dialer).DialContext(ctx, "tcp", p.upstream)
	if err != nil {
		_ = client.Close()
		return
	}
	c := &pair{proxy: p, client: client, server: server.(*net.TCPConn), open: 2}
	p.links.Add(2)
	p.mu.Lock()
	p.pairs[c] = struct{}{}
	p.count++
	name, severed := fmt.Sprint(p.count), p.sever
	p.mu.Unlock()
	c.tear(severed)
	p.delays.StartLink(p.server, name+" requests", c.client, lane{c, Requests, c.server}, stream.Upstream)
	p.delays.StartLink(p.server, name+" replies", c.server, lane{c, Replies, c.client}, stream.Downstream)
}

func (c *pair) close() {
	_ = c.client.Close()
	_ = c.server.Close()
}

func (c *pair) abort() {
	_ = c.client.SetLinger(0)
	_ = c.server.SetLinger(0)
	c.close()
}

// lane is the end of one direction of a connection.
type lane struct {
	*pair
	direction Direction
	to        *net.TCPConn
}

// Write never fails: toxiproxy stops reading from a link whose writer has failed, and the other
// end would block for ever.
func (l lane) Write(b []byte) (int, error) {
	hole, reset := l.fault()
	switch {
	case reset:
		l.abort()
	case hole:
	default:
		if _, err := l.to.Write(b); err != nil {
			l.close()
		}
	}
	return len(b), nil
}

// fault returns what happens to the next bytes.
func (l lane) fault() (hole, reset bool) {
	p := l.proxy
	p.mu.Lock()
	defer p.mu.Unlock()
	l.torn[l.direction] = l.torn[l.direction] || p.hole[l.direction]
	return l.torn[l.direction], p.reset[l.direction]
}

// Close is called when everything from the other side has been written.
func (l lane) Close() error {
	err := l.to.Close()
	p := l.proxy
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.open--; l.open == 0 {
		delete(p.pairs, l.pair)
	}
	p.links.Done()
	return err
}
