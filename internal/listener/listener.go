// Package listener serves HTTP on a socket for all programs of this module: it bounds the time,
// size and number of connections, decides which of them end with an answer, and stops a server
// in order.
package listener

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"syscall"
	"time"

	"gatehouse.example/internal/framing"
	"gatehouse.example/internal/quietlog"
)

// The limits on a connection. They suit servers whose answers are all short. writeTime is also how
// long a client may take nothing of an answer that lasts.
const (
	headerTime = 5 * time.Second
	readTime   = 15 * time.Second
	writeTime  = 30 * time.Second
	idleTime   = 2 * time.Minute
	headerSize = 32 << 10
)

// Open opens a TCP listener at addr. Its error is a sentence for the operator, with the name of
// the setting that addr comes from.
func Open(ctx context.Context, setting, addr string) (net.Listener, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", addr)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("%s %s: the port is taken: end the program that uses it, or choose another with --%s", setting, addr, setting)
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("%s %s: this user may not open the port: choose one above 1023 with --%s", setting, addr, setting)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, fmt.Errorf("%s %s: this machine does not have the address: choose another with --%s", setting, addr, setting)
	case err != nil:
		return nil, fmt.Errorf("%s %s: %w", setting, addr, err)
	}
	return listener, nil
}

// Config configures a [Server]. Only Log is required.
type Config struct {
	// TLS configures TLS and must have Certificates or GetCertificate; nil means plain HTTP.
	TLS *tls.Config
	// Connections bounds the number of open connections; 0 means [DefaultConnections]. It is
	// at most half of the files that the process may open, to leave some for other uses.
	Connections int
	// Headers bounds the headers of a request, in bytes; 0 means 32 KiB.
	Headers int
	// TrustedProxies are networks whose connections count in total only. Set it to the
	// networks of reverse proxies, because all clients of a proxy have its address.
	TrustedProxies []netip.Prefix
	// Streams, if set, is the base context of every request, and there is no limit on the time
	// to read a request and write its answer, as long as the client takes some of it. Set it for
	// servers with long answers, whose handlers bound the time of a body.
	Streams context.Context
	// Log receives the errors of connections.
	Log *slog.Logger

	stall time.Duration // replaces writeTime in tests
}

// Server serves HTTP on one listener. It is safe for concurrent use.
type Server struct {
	http        *http.Server
	connections *connections
	stopping    atomic.Bool
	log         *slog.Logger
}

// New returns a server for a handler.
func New(handler http.Handler, c Config) *Server {
	s := &Server{log: c.Log, connections: newConnections(c)}
	s.http = &http.Server{
		TLSConfig:         c.TLS,
		HTTP2:             http2Limits(),
		ConnContext:       s.connections.withTurns,
		ReadHeaderTimeout: headerTime,
		ReadTimeout:       readTime,
		WriteTimeout:      s.connections.stall,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    cmp.Or(c.Headers, headerSize),
		ErrorLog:          quietlog.ServerLog(c.Log.Handler()),
	}
	handler = framing.Close(handler, s.stopping.Load)
	if c.Streams != nil {
		handler = windowed(handler, s.connections.stall)
		s.http.ReadTimeout, s.http.WriteTimeout = 0, 0
		s.http.BaseContext = func(net.Listener) context.Context { return c.Streams }
	}
	s.http.Handler = s.connections.weigh(handler)
	return s
}

// Serve accepts connections from l until the server is closed or l fails. It returns the error of
// [http.Server.Serve].
func (s *Server) Serve(l net.Listener) error {
	admitted := s.connections.limit(l)
	if s.http.TLSConfig != nil {
		return s.http.ServeTLS(admitted, "", "")
	}
	return s.http.Serve(admitted)
}

// Figures are counts of a server, for metrics.
type Figures struct {
	// Open is the number of places that are taken now: by connections, and by requests of HTTP/2
	// beside the first of their connection. Places is how many there are.
	Open, Places int
	// Refused is the number of connections that were closed for want of a place, and
	// StreamsRefused that of requests that were answered 503 for the same reason.
	Refused, StreamsRefused int64
}

// Figures returns the counts of the server.
func (s *Server) Figures() Figures {
	c := s.connections
	c.mu.Lock()
	defer c.mu.Unlock()
	return Figures{Open: c.all, Places: c.most, Refused: c.refusedEver, StreamsRefused: c.streamsRefused.Load()}
}

// Close closes the server and all connections at once.
func (s *Server) Close() error { return s.http.Close() }
