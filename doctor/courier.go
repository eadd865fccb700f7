package doctor

import (
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"time"
)

// patience is the time for one request.
const patience = 8 * time.Second

// glance is the time for the body of an answer of the protected server, which tells little.
const glance = time.Second

// maxHeader bounds the header of an answer, in bytes.
const maxHeader = 64 << 10

// courier sends requests within the bounds of an examination.
type courier struct {
	options  Options
	inner    http.RoundTripper
	network  *http.Transport // nil if Options.Transport replaces it
	hide     *secrets        // what no record and no progress shows
	most     int             // requests
	requests int             // sent
	reserved int             // of most, for what removes a registration
	bytes    int             // read
}

// question is a request to be sent.
type question struct {
	place, method, url string
	header             http.Header
	body               string
}

func newCourier(o Options, judge *judge) *courier {
	c := &courier{options: o, inner: o.Transport, hide: &secrets{}, most: MaxRequests}
	if c.inner == nil {
		c.network = &http.Transport{ // no proxy: each address is judged here
			DialContext:            judge.dial,
			TLSClientConfig:        &tls.Config{RootCAs: o.Roots, MinVersion: tls.VersionTLS12},
			ForceAttemptHTTP2:      true,
			DisableCompression:     true,
			MaxResponseHeaderBytes: maxHeader,
			TLSHandshakeTimeout:    patience,
			MaxIdleConnsPerHost:    2,
		}
		c.inner = c.network
	}
	return c
}

func (c *courier) close() {
	if c.network != nil {
		c.network.CloseIdleConnections()
	}
}

// ask sends one request. It follows no redirect, and always returns an exchange.
func (c *courier) ask(ctx context.Context, q question) *exchange {
	e := &exchange{place: q.place, method: q.method, url: q.url, sent: q.header, asked: c.options.Now()}
	defer c.hide.scrub(e)
	if why := c.spent(ctx); why != "" {
		e.failure, e.reason = failBudget, why
		return e
	}
	whole := ctx
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c.requests++
	if c.options.Progress != nil {
		c.options.Progress(q.method, c.hide.redact(q.url))
	}
	answer, err := c.send(ctx, q, e)
	if err != nil {
		e.failure, e.reason = explain(ctx, err)
		if whole.Err() != nil {
			e.failure, e.reason = failBudget, "the time was over before it answered"
		}
		return e
	}
	defer answer.Body.Close()
	if strings.HasPrefix(q.place, "call.") {
		defer time.AfterFunc(glance, cancel).Stop()
	}
	e.status, e.header = answer.StatusCode, answer.Header
	if answer.TLS != nil && len(answer.TLS.PeerCertificates) > 0 {
		e.expires = answer.TLS.PeerCertificates[0].NotAfter
	}
	c.read(ctx, answer, e)
	if e.limit(); e.failure == failLimited {
		e.status = 0 // nothing can be told from it
	}
	return e
}

// spent returns which bound is used up, "" if none is.
func (c *courier) spent(ctx context.Context) string {
	switch {
	case ctx.Err() != nil:
		return "the time was over"
	case c.requests >= c.most-c.reserved:
		return fmt.Sprintf("%d requests were sent", c.most)
	case c.bytes >= MaxBytes:
		return fmt.Sprintf("%d bytes were read", MaxBytes)
	}
	return ""
}

func (c *courier) send(ctx context.Context, q question, e *exchange) (*http.Response, error) {
	begin := time.Now()
	e.wrote = c.network == nil
	trace := &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { begin, e.wrote = time.Now(), true }}
	var body io.Reader
	if q.body != "" {
		body = strings.NewReader(q.body)
	}
	request, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, trace), q.method, q.url, body)
	if err != nil {
		return nil, err
	}
	for name, values := range q.header {
		request.Header[name] = values
	}
	request.Header.Set("User-Agent", "authz-doctor")
	answer, err := c.inner.RoundTrip(request)
	e.took = time.Since(begin)
	return answer, err
}

// read reads the body. Of an event stream it reads what came with the first bytes: such a stream
// may stay open.
func (c *courier) read(ctx context.Context, answer *http.Response, e *exchange) {
	limit := min(MaxBody, MaxBytes-c.bytes)
	if e.media() == "text/event-stream" {
		if e.method == http.MethodGet { // nothing may come for hours
			return
		}
		limit = 4 << 10
		buffer := make([]byte, limit)
		n, _ := answer.Body.Read(buffer)
		e.body = buffer[:n]
		c.bytes += n
		return
	}
	packed := &io.LimitedReader{R: answer.Body, N: int64(limit) + 1}
	body, err := io.ReadAll(io.LimitReader(plainBody(answer, packed), int64(limit)+1))
	c.bytes += len(body)
	e.over = len(body) > limit || packed.N == 0
	e.late = !e.over && err != nil && ctx.Err() != nil
	e.cut = e.over || err != nil
	e.body = body[:min(len(body), limit)]
}

// plainBody returns the body without its compression, which nobody asked for but servers may use
// (RFC 9110 section 12.5.3).
func plainBody(answer *http.Response, packed io.Reader) io.Reader {
	coding := strings.ToLower(answer.Header.Get("Content-Encoding"))
	if coding != "gzip" && coding != "x-gzip" {
		return packed
	}
	unpacked, err := gzip.NewReader(packed)
	switch {
	case errors.Is(err, gzip.ErrHeader):
		return strings.NewReader("Content-Encoding is gzip, and the body is not: " + err.Error())
	case err != nil: // it does not come, breaks off, or is empty
		return lostBody{err}
	}
	return unpacked
}

// lostBody is a body of which nothing can be read.
type lostBody struct{ error }

func (b lostBody) Read([]byte) (int, error) { return 0, b.error }

// explain tells why a request failed.
func explain(ctx context.Context, err error) (failure, string) {
	var forbidden *forbidden
	var lookup *net.DNSError
	var operation *net.OpError
	var record tls.RecordHeaderError
	text := clean(strings.TrimSpace(err.Error()))
	switch {
	case errors.As(err, &forbidden):
		return failForbid, forbidden.Error()
	case ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded):
		return failTime, "no answer in time"
	case errors.As(err, &lookup):
		return failLookup, text
	case errors.As(err, &record):
		return failTLS, "something else than TLS is spoken at this port, perhaps http: " + text
	case ofTLS(err):
		return failTLS, text
	case errors.As(err, &operation) && operation.Op == "dial":
		return failConnect, text
	case errors.As(err, &operation), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return failConnect, "the connection ended without an answer: " + text
	case malformed(err):
		return failHeader, text
	}
	return failAnswer, text
}

func ofTLS(err error) bool {
	var verification *tls.CertificateVerificationError
	var invalid x509.CertificateInvalidError
	var host x509.HostnameError
	var authority x509.UnknownAuthorityError
	var alert tls.AlertError
	return errors.As(err, &verification) || errors.As(err, &invalid) ||
		errors.As(err, &host) || errors.As(err, &authority) || errors.As(err, &alert) ||
		strings.Contains(err.Error(), "tls:")
}
