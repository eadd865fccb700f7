// Package listener is the one way in which our programs answer HTTP on a socket: what a
// connection may cost and how many there may be, which of them end with an answer, and how
// a program stops.
package listener

import (
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

// Limits on what a connection may cost. Where every answer is short, a request that takes
// longer than this is not worth waiting for.
const (
	headerTime = 5 * time.Second
	readTime   = 15 * time.Second
	writeTime  = 30 * time.Second
	idleTime   = 2 * time.Minute
	headerSize = 32 << 10
)

// Open opens a listener, or says in a sentence that names the setting why it cannot.
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

// Config is what a server may be told. Only Log is required.
type Config struct {
	// TLS is how the server speaks TLS; nil for plain HTTP. Set Certificates in it.
	TLS *tls.Config
	// Connections is how many may be open at once; 0 stands for [DefaultConnections]. The
	// files that the process may open bound it too: half of them are left for other things.
	Connections int
	// TrustedProxies are networks whose connections are counted in all only: everybody who
	// comes through a proxy has its address.
	TrustedProxies []netip.Prefix
	// Streams is the context of every request, for servers whose answers may be long: their
	// handlers bound how long a body may take. Nil if every answer is short.
	Streams context.Context
	// Log gets what goes wrong on connections.
	Log *slog.Logger
}

// Server answers HTTP on one listener. Its methods may be called at any time.
type Server struct {
	http     *http.Server
	crowd    *crowd
	stopping atomic.Bool
	log      *slog.Logger
}

// New returns a server that answers with a handler.
func New(handler http.Handler, c Config) *Server {
	s := &Server{log: c.Log, crowd: newCrowd(c)}
	s.http = &http.Server{
		Handler:           framing.Close(handler, s.stopping.Load),
		TLSConfig:         c.TLS,
		ReadHeaderTimeout: headerTime,
		ReadTimeout:       readTime,
		WriteTimeout:      writeTime,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    headerSize,
		ErrorLog:          quietlog.ServerLog(c.Log.Handler()),
	}
	if c.Streams != nil {
		s.http.ReadTimeout, s.http.WriteTimeout = 0, 0
		s.http.BaseContext = func(net.Listener) context.Context { return c.Streams }
	}
	return s
}

// Serve answers until the server is closed or its listener fails.
func (s *Server) Serve(l net.Listener) error {
	admitted := s.crowd.over(l)
	if s.http.TLSConfig != nil {
		return s.http.ServeTLS(admitted, "", "")
	}
	return s.http.Serve(admitted)
}

// Close ends the server and cuts off whatever is in flight.
func (s *Server) Close() error { return s.http.Close() }
