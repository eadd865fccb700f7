package listener

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"gatehouse.example/internal/listener/listenertest"
)

// patience bounds every wait.
const patience = 10 * time.Second

var silent = slog.New(slog.DiscardHandler)

// running serves a handler on loopback until the test ends.
func running(t *testing.T, handler http.Handler, c Config) (*Server, string) {
	t.Helper()
	l, err := Open(t.Context(), "listen", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c.Log = silent
	s := New(handler, c)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(l)
	}()
	t.Cleanup(func() {
		_ = s.Close()
		<-done
	})
	return s, l.Addr().String()
}

// A client that sends too slowly is cut off, unless Streams is set: then the handler decides.
func TestLimits(t *testing.T) {
	short, long := New(http.NotFoundHandler(), Config{Log: silent}).http, New(http.NotFoundHandler(), Config{Log: silent, Streams: context.Background()}).http
	for name, limit := range map[string]time.Duration{
		"ReadHeaderTimeout": short.ReadHeaderTimeout, "ReadTimeout": short.ReadTimeout, "WriteTimeout": short.WriteTimeout, "IdleTimeout": short.IdleTimeout,
		"ReadHeaderTimeout of streams": long.ReadHeaderTimeout, "IdleTimeout of streams": long.IdleTimeout,
	} {
		if limit <= 0 || limit > 2*time.Minute {
			t.Errorf("%s is %s", name, limit)
		}
	}
	if asked := New(http.NotFoundHandler(), Config{Log: silent, Headers: 8 << 10}).http; asked.MaxHeaderBytes != 8<<10 {
		t.Errorf("headers of %d bytes, not as configured", asked.MaxHeaderBytes)
	}
	for _, limits := range []*http.HTTP2Config{short.HTTP2, long.HTTP2} {
		if limits == nil || limits.MaxReceiveBufferPerConnection != 256<<10 || limits.MaxReceiveBufferPerStream != 64<<10 {
			t.Errorf("bodies that nobody has read: %+v", limits)
		}
	}
	if short.MaxHeaderBytes != 32<<10 || long.MaxHeaderBytes != 32<<10 || long.ReadTimeout != 0 || long.WriteTimeout != 0 {
		t.Errorf("headers of %d and %d bytes, streams of %s and %s", short.MaxHeaderBytes, long.MaxHeaderBytes, long.ReadTimeout, long.WriteTimeout)
	}
}

// A handler cannot prevent that a connection ends: neither one that writes nothing, nor one that
// only flushes, one that clears the headers, or one that sends an interim response and reads
// nothing.
func TestNoHandlerKeepsAConnection(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"nothing": func(http.ResponseWriter, *http.Request) {},
		"reads":   func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) },
		"writes":  func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") },
		"flushes": func(w http.ResponseWriter, _ *http.Request) { _ = http.NewResponseController(w).Flush() },
		"flushes the old way": func(w http.ResponseWriter, _ *http.Request) {
			w.(http.Flusher).Flush()
			_, _ = io.WriteString(w, "ok")
		},
		"keeps alive": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Connection", "keep-alive")
			w.WriteHeader(http.StatusNoContent)
		},
		"hints and clears": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusEarlyHints)
			clear(w.Header())
			w.WriteHeader(http.StatusAccepted)
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, addr := running(t, handler, Config{})
			listenertest.Smuggling(t, listenertest.Dial(addr), "example.com", "/")
		})
	}
}

// pipeListener accepts connections with addresses that tests choose.
type pipeListener struct {
	conns chan net.Conn
	ended chan struct{}
}

func (l pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.ended:
		return nil, net.ErrClosed
	}
}
func (l pipeListener) Close() error   { return nil }
func (l pipeListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

// from is one end of a connection from an address.
type from struct {
	net.Conn
	addr net.Addr
}

func (f from) RemoteAddr() net.Addr { return f.addr }
