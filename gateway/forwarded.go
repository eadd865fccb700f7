package gateway

import (
	"net/http"
	"time"
)

// timed is a transport that reports each round trip: the status of the answer, 0 without one, and
// the time to its header. A request whose client left before is no fault of the upstream, and is not
// reported.
type timed struct {
	http.RoundTripper
	report func(status int, took time.Duration)
}

// transport returns the transport to the upstream, within c.WrapTransport and reporting to
// c.Forwarded if these are set.
func (c *Config) transport() http.RoundTripper {
	transport := c.Transport
	if transport == nil {
		transport = newTransport(c.UpstreamTLS.Clone())
	}
	if c.WrapTransport != nil {
		transport = c.WrapTransport(transport)
	}
	if c.Forwarded == nil {
		return transport
	}
	return timed{transport, c.Forwarded}
}

// RoundTrip implements http.RoundTripper.
func (t timed) RoundTrip(r *http.Request) (*http.Response, error) {
	began, status := time.Now(), 0
	res, err := t.RoundTripper.RoundTrip(r)
	if err == nil {
		status = res.StatusCode
	}
	if err == nil || r.Context().Err() == nil {
		t.report(status, time.Since(began))
	}
	return res, err
}
