//go:build e2e

package faults

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gatehouse.example/storage/redis/redistest"
)

// balancer is a proxy in front of processes, as operators have one: it asks /readyz, sends requests in
// turn to those that are ready, and to another one if nobody listens. Nothing else is sent twice.
type balancer struct {
	*process  // what requests are sent to
	backends  []*backend
	turn      atomic.Int64
	transport *http.Transport
}

// backend is a process behind a balancer.
type backend struct {
	*process
	admin string
	flags []string
	ready atomic.Bool
	sent  atomic.Int64
}

// newBalancer returns a balancer in front of processes of a fleet, each with an admin listener and
// these flags.
func newBalancer(t testing.TB, f *fleet, n int, flags ...string) *balancer {
	t.Helper()
	b := &balancer{transport: &http.Transport{MaxIdleConnsPerHost: connections}}
	for range n {
		back := &backend{admin: redistest.FreeAddress(t)}
		back.flags = append(slices.Clone(flags), "--admin-listen", back.admin)
		back.process = f.start(back.flags...)
		b.backends = append(b.backends, back)
	}
	proxy := &httputil.ReverseProxy{Transport: b, Rewrite: func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.Host = "http", r.In.Host }}
	front := httptest.NewServer(proxy)
	t.Cleanup(front.Close)
	b.process = &process{fleet: f, address: strings.TrimPrefix(front.URL, "http://")}
	b.client = &http.Client{Timeout: answerTime, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, Transport: &http.Transport{
		MaxIdleConnsPerHost: connections, DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, b.address)
		},
	}}
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop) })
	for _, back := range b.backends {
		back.look()
		go back.watch(stop)
	}
	return b
}

// look asks once whether the process takes requests.
func (b *backend) look() {
	client := &http.Client{Timeout: 2 * time.Second}
	resp, err := client.Get("http://" + b.admin + "/readyz")
	if err == nil {
		_ = resp.Body.Close()
	}
	b.ready.Store(err == nil && resp.StatusCode == http.StatusOK)
}

func (b *backend) watch(stop chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(100 * time.Millisecond):
			b.look()
		}
	}
}

// RoundTrip sends a request to the next process that is ready, and to the others if it cannot be
// dialled, in which case it has not happened.
func (b *balancer) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	err := errors.New("no process is ready")
	first := int(b.turn.Add(1))
	for i := range b.backends {
		back := b.backends[(first+i)%len(b.backends)]
		if !back.ready.Load() {
			continue
		}
		out := r.Clone(r.Context())
		out.URL.Host, out.Body = back.address, io.NopCloser(bytes.NewReader(body))
		var resp *http.Response
		if resp, err = b.transport.RoundTrip(out); err == nil {
			back.sent.Add(1)
			return resp, nil
		}
		var dial *net.OpError
		if !errors.As(err, &dial) || dial.Op != "dial" {
			return nil, err
		}
		back.ready.Store(false)
	}
	return nil, err
}
