package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"gatehouse.example/internal/fair"
)

// The limits on what a provider does.
const (
	connectTime = 3 * time.Second
	headerTime  = 5 * time.Second
	callTime    = 10 * time.Second // all of a call, with the wait for a place
	allTime     = 30 * time.Second // all calls for one person
	maxBody     = 1 << 20
	maxHeader   = 64 << 10

	places  = 32  // calls to one provider at a time
	waiting = 256 // calls that wait for a place
)

// The lanes of the queue for calls: none waits behind another.
const (
	laneSignIn  = "sign-in"
	laneRecheck = "recheck"
)

// caller makes the calls to one provider.
type caller struct {
	blame
	transport *http.Transport
	dial      func(ctx context.Context, network, address string) (net.Conn, error)
	queue     *fair.Queue
	observe   func(status int, took time.Duration) // may be nil
}

// reply is an answer that was read to its end.
type reply struct {
	status int
	body   []byte
}

func newCaller(b blame, o Options) *caller {
	c := &caller{blame: b, queue: fair.NewQueue(places, waiting), observe: o.Observe}
	c.dial = (&net.Dialer{KeepAlive: 30 * time.Second}).DialContext
	c.transport = &http.Transport{
		Proxy:                  o.Proxy,
		DialContext:            c.connect,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: o.Roots},
		TLSHandshakeTimeout:    connectTime,
		ResponseHeaderTimeout:  headerTime,
		MaxResponseHeaderBytes: maxHeader,
		MaxConnsPerHost:        places + 2, // and one each for metadata and keys
		MaxIdleConnsPerHost:    8,
		IdleConnTimeout:        90 * time.Second,
		ForceAttemptHTTP2:      true,
	}
	return c
}

// connect bounds the time for a name and a connection.
func (c *caller) connect(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	return c.dial(ctx, network, address)
}

// queued makes a call when there is a place for it.
func (c *caller) queued(ctx context.Context, lane string, r *http.Request) (reply, error) {
	limited, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	leave, err := c.queue.Enter(limited, lane, fair.Requester(ctx))
	if err != nil {
		if ctx.Err() != nil {
			return reply{}, c.interrupted(ctx)
		}
		return reply{}, c.error(ErrUnavailable, ReasonBusy, "more than %d calls at a time, and %d waiting", places, waiting)
	}
	defer leave()
	return c.do(limited, ctx, r)
}

// do makes a call within the time of ctx. whole is the context of the person who waits for it alone.
func (c *caller) do(ctx, whole context.Context, r *http.Request) (reply, error) {
	r = r.WithContext(ctx)
	r.Header.Set("User-Agent", "Gatehouse")
	if r.Header.Get("Accept") == "" {
		r.Header.Set("Accept", "application/json")
	}
	// RoundTrip follows no redirect.
	began := time.Now()
	answer, err := c.transport.RoundTrip(r)
	c.asked(whole, answer, time.Since(began))
	if err != nil {
		return reply{}, c.failed(whole, r, err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxBody+1))
	switch {
	case err != nil:
		return reply{}, c.failed(whole, r, err)
	case len(body) > maxBody:
		return reply{}, c.error(ErrInvalid, ReasonNonsense, "%s answered with more than %d bytes", place(r), maxBody)
	case answer.StatusCode >= 300 && answer.StatusCode < 400:
		return reply{}, c.error(ErrInvalid, ReasonNonsense, "%s answered with a redirect (%d), which is not followed", place(r), answer.StatusCode)
	case answer.StatusCode >= 500 || answer.StatusCode == http.StatusTooManyRequests:
		return reply{}, c.error(ErrUnavailable, ReasonDown, "%s answered %d", place(r), answer.StatusCode)
	}
	return reply{answer.StatusCode, body}, nil
}

// asked reports a request, unless whoever waited for it left.
func (c *caller) asked(whole context.Context, answer *http.Response, took time.Duration) {
	switch {
	case c.observe == nil:
	case answer != nil:
		c.observe(answer.StatusCode, took)
	case whole.Err() == nil || context.Cause(whole) == errSlow:
		c.observe(0, took)
	}
}

// failed says why there is no answer.
func (c *caller) failed(whole context.Context, r *http.Request, err error) error {
	if whole.Err() != nil {
		return c.interrupted(whole)
	}
	reason := ReasonDown
	var timeout net.Error
	if errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout() {
		reason = ReasonSlow
	}
	// A POST of which anything was written is not sent again, so no connection before this one had it.
	var on *net.OpError
	unsent := errors.As(err, &on) && on.Op == "dial"
	return c.error(ErrUnavailable, reason, "%s: %s", place(r), shown(err.Error(), 200)).with(unsent)
}

// get fetches an address of the metadata.
func get(address string) (*http.Request, error) {
	return http.NewRequest(http.MethodGet, address, nil)
}

// place is where a request goes, without the query.
func place(r *http.Request) string {
	return fmt.Sprintf("%s %s://%s%s", r.Method, r.URL.Scheme, r.URL.Host, r.URL.Path)
}

// blame makes errors that name the provider.
type blame struct{ id, title string }

func (b blame) error(kind error, reason Reason, format string, arguments ...any) *Error {
	return &Error{Provider: b.id, Title: b.title, Kind: kind, Reason: reason, Detail: fmt.Sprintf(format, arguments...)}
}

// coded is an error with a code of the provider.
func (b blame) coded(kind error, reason Reason, oauth, format string, arguments ...any) *Error {
	e := b.error(kind, reason, format, arguments...)
	e.Code = code(oauth)
	return e
}

// errSlow is why the time for all calls for one person ended.
var errSlow = errors.New("the provider took too long with several answers")

// bounded limits all calls for one person, of which there are several.
func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, allTime, errSlow)
}

// interrupted is the error for a context that ended.
func (b blame) interrupted(ctx context.Context) *Error {
	if context.Cause(ctx) == errSlow {
		return b.error(ErrUnavailable, ReasonSlow, "%s", errSlow)
	}
	return b.error(ErrUnavailable, ReasonInterrupted, "the request that waited for it ended")
}

// own returns err as an error of this package.
func (b blame) own(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return b.error(ErrInvalid, ReasonNonsense, "%s", shown(err.Error(), 200))
}
