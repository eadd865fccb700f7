package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"gatehouse.example/cmd/authz/internal/metrics"
	"gatehouse.example/cmd/authz/internal/settings"
	"gatehouse.example/cmd/authz/internal/traces"
	"gatehouse.example/gateway"
	"gatehouse.example/internal/acme"
	"gatehouse.example/internal/certificate"
	"gatehouse.example/internal/listener"
)

// site is a running server: its listeners and their settings.
type site struct {
	public, admin net.Listener       // admin is nil when it is off
	pair          certificate.Source // for the public listener, nil for plain HTTP
	draining      atomic.Bool
	log           *slog.Logger
	metrics       *metrics.Registry // nil without an admin listener
	traces        *traces.Traces    // nil without an exporter
	bounds        listenSettings
	headers       int // the greatest size of the headers of a request; 0 for the default
	trusted       []netip.Prefix
	grace         time.Duration
	streams       *streams // nil when every answer is short
	notice        func()   // called when the server begins to stop; may be nil

	authority  *acme.Manager // the same as pair, nil without --acme-names
	challenges net.Listener  // for HTTP-01, nil for none
}

// listenSettings are the settings of the listener in every verb that serves.
type listenSettings struct {
	Drain          settings.Duration `default:"5s" placeholder:"TIME" help:"How long requests are still accepted after SIGTERM while readiness is off, so that load balancers notice; SIGINT does not wait (default ${default})."`
	MaxConnections int               `default:"10000" placeholder:"N" help:"Greatest number of open connections; one network may use a part of them, a trusted proxy all (default ${default})."`
}

// boundMistakes returns an error for each of these settings that is out of range.
func (b listenSettings) boundMistakes() error {
	var errs []error
	if b.Drain < 0 {
		errs = append(errs, fmt.Errorf("drain %s is below 0", b.Drain))
	}
	if b.MaxConnections <= 0 {
		errs = append(errs, fmt.Errorf("max-connections %d is not a number of connections: it must be more than 0", b.MaxConnections))
	}
	return errors.Join(errs...)
}

// collision returns an error if two of the listeners of one process have one address. Admin may be off,
// and challenges empty. A malformed address is reported elsewhere.
func collision(listen, admin, challenges string) error {
	type named struct{ name, addr string }
	all := []named{{"listen", listen}, {"admin-listen", admin}, {"acme-http-listen", challenges}}
	var errs []error
	for i, one := range all {
		for _, other := range all[:i] {
			if sameAddress(one.addr, other.addr) {
				errs = append(errs, fmt.Errorf("%s %s and %s %s are one address: give each listener a port of its own", other.name, other.addr, one.name, one.addr))
			}
		}
	}
	return errors.Join(errs...)
}

// sameAddress reports whether only one of two listeners can be opened.
func sameAddress(a, b string) bool {
	hostA, portA, errA := net.SplitHostPort(a)
	hostB, portB, errB := net.SplitHostPort(b)
	one, badA := strconv.ParseUint(portA, 10, 16)
	other, badB := strconv.ParseUint(portB, 10, 16)
	if errors.Join(errA, errB, badA, badB) != nil || one != other || one == 0 {
		return false
	}
	return hostA == hostB || takesAll(hostA, hostB) || takesAll(hostB, hostA)
}

// takesAll reports whether a listener on all addresses of the machine has that of the other host too.
func takesAll(all, host string) bool {
	from, err := netip.ParseAddr(all)
	at, elsewhere := netip.ParseAddr(host)
	switch {
	case err != nil:
		return all == ""
	case from == netip.IPv4Unspecified():
		return elsewhere == nil && at.Is4()
	}
	return from.IsUnspecified()
}

// streams is the context of long responses, and its end.
type streams struct {
	context.Context
	end context.CancelCauseFunc
}

func newStreams() *streams {
	ctx, end := context.WithCancelCause(context.Background())
	return &streams{ctx, end}
}

// newSite loads the certificate and opens the listeners.
func newSite(ctx context.Context, public, admin, cert, key string) (*site, error) {
	st := &site{}
	var err error
	if cert != "" {
		pair, err := certificate.Load(cert, key)
		if err != nil {
			return nil, err
		}
		st.pair = pair
	}
	if st.public, err = listener.Open(ctx, "listen", public); err != nil {
		return nil, err
	}
	if admin == off {
		return st, nil
	}
	if st.admin, err = listener.Open(ctx, "admin-listen", admin); err != nil {
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
	if st.challenges != nil {
		_ = st.challenges.Close()
	}
}

// adminConnections is the greatest number of connections to the admin listener, which only
// monitoring uses.
const adminConnections = 256

// serve answers until ctx ends, then lets the requests in flight finish. The admin listener
// stays open to the end, so that /readyz can report that the server is stopping.
func (st *site) serve(ctx context.Context, public, admin http.Handler) error {
	front, back := st.front(public), listener.New(admin, listener.Config{Connections: adminConnections, Log: st.log})
	if st.metrics != nil {
		st.metrics.Listener(front.Figures)
	}
	if st.pair != nil {
		defer st.keepCertificates(ctx)()
		defer st.answerChallenges()()
	}
	failed := make(chan error, 2)
	go func() { failed <- front.Serve(st.public) }()
	if st.admin != nil {
		go func() { failed <- back.Serve(st.admin) }()
	}
	select {
	case err := <-failed:
		_, _ = front.Close(), back.Close()
		return err
	case <-ctx.Done():
	}
	front.Stop(ctx, st.ending())
	return back.Close()
}

// keepCertificates keeps the certificates in step until the function that it returns is called: to the
// end, also while the server drains.
func (st *site) keepCertificates(ctx context.Context) (stop func()) {
	watch, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() { _ = st.pair.Run(watch, st.log) })
	return func() {
		cancel()
		running.Wait()
	}
}

// front returns the server of the public listener.
func (st *site) front(h http.Handler) *listener.Server {
	c := listener.Config{Connections: st.bounds.MaxConnections, Headers: st.headers, TrustedProxies: st.trusted, Log: st.log}
	if st.pair != nil {
		c.TLS = st.pair.Config()
	}
	if st.streams != nil {
		c.Streams = st.streams
	}
	return listener.New(h, c)
}

func (st *site) ending() listener.Stop {
	how := listener.Stop{Drain: time.Duration(st.bounds.Drain), Grace: st.grace, Notice: st.beginStopping}
	if st.streams != nil {
		how.EndStreams = func() { st.streams.end(gateway.ErrStopping) }
	}
	return how
}

func (st *site) beginStopping() {
	st.draining.Store(true)
	if st.notice != nil {
		st.notice()
	}
}
