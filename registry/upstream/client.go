// Package upstream implements a client of another registry.
//
// A [Client] reads the list of an upstream page by page. It neither repeats a failed request
// nor waits between requests: that is up to the caller. Pages, bytes and time are limited. An
// invalid record does not end a crawl: it is a [registry.InvalidItem] of its page.
//
//	client, err := upstream.New(upstream.Config{Base: "https://registry.example.com"})
//	...
//	for page, err := range client.Items(ctx, upstream.Query{UpdatedSince: last}) {
//		if busy := (*upstream.AnswerError)(nil); errors.As(err, &busy) && !busy.RetryAt.IsZero() {
//			// continue at busy.RetryAt, with Query.Cursor set to the last page.Next
//		}
//		for _, item := range page.Items {
//			// item.Record.Name(), item.Record.Version(), item.Official.Status
//		}
//	}
package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Config configures a [Client]. Base is required.
type Config struct {
	// Base is the https URL of the upstream registry. It may end with the version of the
	// interface, /v0.1 or /v0. Otherwise the client tries /v0.1 first, then /v0.
	Base string
	// InsecureAllowHTTP allows an http URL whose host is not this machine. Set it only if no
	// third party can change the traffic: it could change every record.
	InsecureAllowHTTP bool
	// HTTP supplies the Transport and the Timeout of requests, for example for a proxy or
	// private certificate authorities. The client handles redirects itself, uses no cookies,
	// and refuses a Transport that does not verify certificates. Default: a client that uses
	// the proxy of the environment.
	HTTP *http.Client
	// UserAgent is the User-Agent of requests. Default: gatehouse-registry.
	UserAgent string
	// PageSize is the number of items requested per page, 1 to 100. Default 100.
	PageSize int
	// Timeout limits one request including the whole answer. Default 30 s.
	Timeout time.Duration
	// MaxPageBytes limits the size of one answer after decompression. Default 32 MiB.
	MaxPageBytes int64
	// MaxPages and MaxBytes limit one call of [Client.Items], MaxPages together with
	// Query.PagesBefore. Defaults: 10 000 and 1 GiB. Raise them for a larger upstream.
	MaxPages int
	MaxBytes int64
	// MaxEmptyPages is the maximum number of consecutive empty pages with a next page.
	// Default 3.
	MaxEmptyPages int
	// Now is the clock; nil means time.Now. Set it in tests.
	Now func() time.Time
}

// Client reads an upstream registry. It neither repeats a failed request nor waits between
// requests. It is safe for concurrent use.
type Client struct {
	http      *http.Client
	base      string                 // without a slash at its end
	versions  []string               // of the interface, in the order in which they are tried
	works     atomic.Pointer[string] // the version that worked last
	userAgent string
	pageSize  int
	timeout   time.Duration
	bounds    bounds
	now       func() time.Time
}

// bounds are the limits of one crawl.
type bounds struct {
	pageBytes, bytes  int64
	pages, emptyPages int
}

// interfaces are the versions of the interface, the preferred one first.
var interfaces = []string{"/v0.1", "/v0"}

// New returns a client. The error joins all mistakes in the configuration.
func New(c Config) (*Client, error) {
	client := &Client{
		userAgent: orDefault(c.UserAgent, "gatehouse-registry"), pageSize: orDefault(c.PageSize, 100),
		timeout: orDefault(c.Timeout, 30*time.Second), now: c.Now,
		bounds: bounds{
			pageBytes: orDefault(c.MaxPageBytes, 32<<20), bytes: orDefault(c.MaxBytes, 1<<30),
			pages: orDefault(c.MaxPages, 10_000), emptyPages: orDefault(c.MaxEmptyPages, 3),
		},
	}
	if c.Now == nil {
		client.now = time.Now
	}
	errs := []error{client.setBase(c.Base, c.InsecureAllowHTTP), client.setHTTP(c.HTTP)}
	if client.pageSize < 1 || client.pageSize > 100 {
		errs = append(errs, fmt.Errorf("registry/upstream: the page size is %d: it must be 1 to 100", client.pageSize))
	}
	b := client.bounds
	if client.timeout < 0 || b.pageBytes < 0 || b.bytes < 0 || b.pages < 0 || b.emptyPages < 0 {
		errs = append(errs, errors.New("registry/upstream: a limit is below zero"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return client, nil
}

func orDefault[T comparable](v, fallback T) T {
	if v == *new(T) {
		return fallback
	}
	return v
}

// parseBase parses and checks the URL of an upstream.
func parseBase(base string, allowHTTP bool) (*url.URL, error) {
	fail := func(why string) (*url.URL, error) {
		return nil, fmt.Errorf("registry/upstream: the address of the upstream: %s", why)
	}
	u, err := url.Parse(base)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return fail("it must be an https URL")
	case u.User != nil: // the address is written into logs
		return fail("it must have no user name and no password")
	case u.RawQuery != "" || u.ForceQuery || strings.Contains(base, "#"):
		return fail("it must have no query and no fragment")
	case u.Scheme == "http" && !allowHTTP && !loopback(u.Hostname()):
		return fail("it must be https")
	}
	return u, nil
}

// setBase sets the address of the upstream and the versions of the interface to try.
func (c *Client) setBase(base string, allowHTTP bool) error {
	u, err := parseBase(base, allowHTTP)
	if err != nil {
		return err
	}
	c.base, c.versions = strings.TrimRight(u.String(), "/"), interfaces
	for i, version := range interfaces {
		if rest, found := strings.CutSuffix(c.base, version); found {
			c.base, c.versions = strings.TrimRight(rest, "/"), interfaces[i:]
			break
		}
	}
	return nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Base returns the URL of the upstream, without the version of the interface and without a
// slash at its end.
func (c *Client) Base() string { return c.base }

// setHTTP sets the HTTP client: a copy of the given one with this package's rules for
// redirects, cookies and headers.
func (c *Client) setHTTP(given *http.Client) error {
	own := http.Client{}
	if given != nil {
		own = *given
	}
	own.Jar, own.CheckRedirect = nil, sameOrigin
	if own.Transport == nil {
		own.Transport = http.DefaultTransport
	}
	if transport, ok := own.Transport.(*http.Transport); ok {
		if unverified(transport.TLSClientConfig) {
			return errors.New("registry/upstream: the transport does not verify certificates")
		}
		transport = transport.Clone()
		transport.MaxResponseHeaderBytes = orDefault(transport.MaxResponseHeaderBytes, 64<<10)
		own.Transport = transport
	}
	c.http = &own
	return nil
}

func unverified(config *tls.Config) bool { return config != nil && config.InsecureSkipVerify }

// maxRedirects is the number of redirects that are followed. Upstreams redirect to another
// spelling of a path.
const maxRedirects = 3

// sameOrigin allows redirects only to the origin of the first request.
func sameOrigin(r *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return fmt.Errorf("%w: more than %d", ErrRedirect, maxRedirects)
	}
	if from := via[0].URL; r.URL.Scheme != from.Scheme || r.URL.Host != from.Host || r.URL.User != nil {
		return fmt.Errorf("%w: to another origin", ErrRedirect)
	}
	return nil
}

// request is one request to the upstream.
type request struct {
	path        string // below the version of the interface, escaped
	query       url.Values
	ifNoneMatch string
	first       bool  // the first page of a list: 404 means that the upstream lacks this version of the interface
	maxBytes    int64 // of the answer
}

// answer is a 200 answer of the upstream.
type answer struct {
	header http.Header
	body   []byte
}

// do tries the versions of the interface in turn until the answer is not 404.
func (c *Client) do(ctx context.Context, r request) (a answer, err error) {
	for _, version := range c.order(r) {
		a, err = c.exchange(ctx, version, r)
		if err == nil || errors.Is(err, ErrNotModified) {
			c.works.Store(&version)
		}
		if !errors.Is(err, ErrNotFound) {
			break
		}
	}
	return a, err
}

// order returns the versions of the interface to try, the one that worked last first.
func (c *Client) order(r request) []string {
	works := c.works.Load()
	if works == nil {
		return c.versions
	}
	order := []string{*works}
	for _, version := range c.versions {
		if r.first && version != *works {
			order = append(order, version)
		}
	}
	return order
}

// exchange makes one request.
func (c *Client) exchange(ctx context.Context, version string, r request) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	address := c.base + version + r.path
	if len(r.query) > 0 {
		address += "?" + r.query.Encode()
	}
	outgoing, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return answer{}, fmt.Errorf("registry/upstream: %w", err)
	}
	outgoing.Header.Set("Accept", "application/json, application/problem+json")
	outgoing.Header.Set("User-Agent", c.userAgent)
	if r.ifNoneMatch != "" {
		outgoing.Header.Set("If-None-Match", r.ifNoneMatch)
	}
	response, err := c.http.Do(outgoing)
	if err != nil {
		return answer{}, fmt.Errorf("registry/upstream: %w", err)
	}
	defer response.Body.Close()
	switch {
	case response.StatusCode == http.StatusOK:
		body, err := readAll(response.Body, r.maxBytes)
		return answer{response.Header, body}, err
	case response.StatusCode == http.StatusNotModified && r.ifNoneMatch != "":
		return answer{}, ErrNotModified
	}
	return answer{}, c.answerError(response)
}

// readAll reads a body. It returns [ErrTooLarge] if the body has more than limit bytes.
func readAll(body io.Reader, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(body, limit+1))
	if err != nil {
		return nil, fmt.Errorf("registry/upstream: the answer was cut off: %w", err)
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("registry/upstream: %w: more than %s bytes", ErrTooLarge, strconv.FormatInt(limit, 10))
	}
	return data, nil
}
