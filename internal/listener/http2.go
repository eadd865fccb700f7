package listener

import (
	"context"
	"net"
	"net/http"
	"sync"
)

// The limits on a connection of HTTP/2. A client reads them in the settings of the server.
const (
	// maxStreams is the greatest number of requests at a time on one connection.
	maxStreams = 100
	// streamBuffer and connectionBuffer bound the bodies that the server holds before a handler
	// reads them.
	streamBuffer     = 64 << 10
	connectionBuffer = 256 << 10
)

// http2Limits returns the limits of HTTP/2. WriteByteTimeout is not among them: over TLS it ends
// connections that make progress, and [limitedConn.Write] is for both versions of HTTP.
func http2Limits() *http.HTTP2Config {
	return &http.HTTP2Config{
		MaxConcurrentStreams: maxStreams, MaxReadFrameSize: 16 << 10,
		MaxReceiveBufferPerConnection: connectionBuffer, MaxReceiveBufferPerStream: streamBuffer,
	}
}

// turns counts the requests in flight on one connection.
type turns struct {
	mu       sync.Mutex
	running  int
	networks []string // for which the connection counts
}

type turnsKey struct{}

// withTurns is the ConnContext of the server.
func (c *connections) withTurns(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, turnsKey{}, &turns{networks: c.networks(conn.RemoteAddr())})
}

// weigh returns a handler that counts requests of HTTP/2 like connections: the first at a time on
// a connection has its place, and each further one needs a place of its own. Otherwise a network
// would have a hundred times as many requests at a time as with HTTP/1.1. One without a place gets
// 503.
func (c *connections) weigh(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t, ok := r.Context().Value(turnsKey{}).(*turns)
		if !ok || r.ProtoMajor < 2 {
			next.ServeHTTP(w, r)
			return
		}
		if !c.begin(t) {
			c.streamsRefused.Add(1)
			w.Header().Set("Retry-After", "1")
			w.Header().Set("Cache-Control", "no-store")
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		defer c.end(t)
		next.ServeHTTP(w, r)
	})
}

// begin counts a request, and takes a place for it unless it is the only one of its connection.
func (c *connections) begin(t *turns) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.running > 0 && !c.enter(t.networks) {
		return false
	}
	t.running++
	return true
}

// end gives the place of a request back, unless it was the last one of its connection.
func (c *connections) end(t *turns) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.running--; t.running > 0 {
		c.leave(t.networks)
	}
}
