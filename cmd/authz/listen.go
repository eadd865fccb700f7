package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"syscall"
	"time"

	"gatehouse.example/gateway"
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

// listen opens a listener, or says in a sentence why it cannot.
func listen(ctx context.Context, setting, addr string) (net.Listener, error) {
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

// certificate loads the key pair of the public listener, nil without TLS.
func certificate(cert, key string) (*tls.Config, error) {
	if cert == "" {
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("tls-cert %s, tls-key %s: %w", cert, key, err)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}, nil
}

// site is the listeners of a running server with what answers on them.
type site struct {
	public, admin net.Listener // admin is nil when it is off
	tls           *tls.Config  // for the public listener, nil for none
	draining      atomic.Bool
	log           *slog.Logger
	grace         time.Duration
	streams       *streams // nil when every answer is short
}

// streams is the life of answers that may be long.
type streams struct {
	context.Context
	end context.CancelCauseFunc
}

func newStreams() *streams {
	ctx, end := context.WithCancelCause(context.Background())
	return &streams{ctx, end}
}

// newSite opens the listeners, before anything else is touched.
func newSite(ctx context.Context, public, admin, cert, key string) (*site, error) {
	certificate, err := certificate(cert, key)
	if err != nil {
		return nil, err
	}
	st := &site{tls: certificate}
	if st.public, err = listen(ctx, "listen", public); err != nil {
		return nil, err
	}
	if admin == off {
		return st, nil
	}
	if st.admin, err = listen(ctx, "admin-listen", admin); err != nil {
		st.close()
		return nil, err
	}
	return st, nil
}

func (st *site) close() {
	_ = st.public.Close()
	if st.admin != nil {
		_ = st.admin.Close()
	}
}

// serve answers until ctx ends, then lets the requests in flight finish.
func (st *site) serve(ctx context.Context, public, admin http.Handler) error {
	front, back := st.httpServer(public), st.httpServer(admin)
	front.TLSConfig = st.tls
	failed := make(chan error, 2)
	go func() { failed <- front.serve(st.public) }()
	if st.admin != nil {
		go func() { failed <- back.serve(st.admin) }()
	}
	select {
	case err := <-failed:
		_, _ = front.Close(), back.Close()
		return err
	case <-ctx.Done():
	}
	st.drain(front.Server)
	return back.Close()
}

// drain ends the public server. The admin listener stays, so that /readyz can say so.
func (st *site) drain(front *http.Server) {
	st.draining.Store(true)
	st.log.Info("stopping: waiting for requests in flight", "at_most", st.grace.String())
	ctx, cancel := context.WithTimeout(context.Background(), st.grace)
	defer cancel()
	if st.streams != nil {
		defer time.AfterFunc(st.grace/2, func() { st.streams.end(gateway.ErrStopping) }).Stop()
	}
	if err := front.Shutdown(ctx); err != nil {
		st.log.Warn("requests were cut off: they took too long to finish")
		_ = front.Close()
	}
}

// server is an http.Server that knows whether it speaks TLS.
type server struct{ *http.Server }

func (st *site) httpServer(h http.Handler) server {
	s := server{&http.Server{
		Handler:           h,
		ReadHeaderTimeout: headerTime,
		ReadTimeout:       readTime,
		WriteTimeout:      writeTime,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    headerSize,
		ErrorLog:          quietlog.ServerLog(st.log.Handler()),
	}}
	if st.streams != nil { // the handler bounds how long a body may take
		s.ReadTimeout, s.WriteTimeout = 0, 0
		s.BaseContext = func(net.Listener) context.Context { return st.streams }
	}
	return s
}

func (s server) serve(l net.Listener) error {
	if s.TLSConfig != nil {
		return s.ServeTLS(l, "", "")
	}
	return s.Serve(l)
}
