// Package upstream is a client of another registry.
//
// A [Client] goes through the list of an upstream, page by page. It asks once and waits for
// nothing: whether and when to ask again is for its caller to decide. What an upstream says is
// bounded in pages, bytes and time, and one bad record does not end a crawl: it is a
// [registry.InvalidItem] of its page.
//
//	client, err := upstream.New(upstream.Config{Base: "https://registry.example.com"})
//	...
//	for page, err := range client.Items(ctx, upstream.Query{UpdatedSince: last}) {
//		if busy := (*upstream.AnswerError)(nil); errors.As(err, &busy) && !busy.RetryAt.IsZero() {
//			// come back then, with Query.Cursor set to the last page.Next
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
	// Base is where the upstream registry is, as the operator configured it: an https URL.
	// It may end with the version of the interface, /v0.1 or /v0. Otherwise /v0.1 is tried
	// first, and then /v0.
	Base string
	// InsecureAllowHTTP allows an http URL whose host is not this machine.
	InsecureAllowHTTP bool
	// HTTP is used for its Transport and its Timeout. Redirects and cookies are not left to
	// it, and a Transport that does not verify certificates is refused. Default: one that
	// goes through the proxy of the environment, as other tools do.
	HTTP *http.Client
	// UserAgent tells the upstream who asks. Default: gatehouse-registry.
	UserAgent string
	// PageSize is how many items are asked for at once, from 1 to 100. Default 100.
	PageSize int
	// Timeout bounds one request with its whole answer. Default 30 s.
	Timeout time.Duration
	// MaxPageBytes bounds one answer, after decompression. Default 32 MiB.
	MaxPageBytes int64
	// MaxPages and MaxBytes bound what one call of [Client.Items] reads. Defaults: 10 000
	// and 1 GiB.
	MaxPages int
	MaxBytes int64
	// MaxEmptyPages is how many pages in a row may be empty and lead on. Default 3.
	MaxEmptyPages int
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Client reads an upstream registry. It asks once and waits for nothing: whether and when to
// ask again is for the caller to decide. It is safe for concurrent use.
type Client struct {
	http      *http.Client
	base      string                 // without a slash at its end
	versions  []string               // of the interface, in the order in which they are tried
	works     atomic.Pointer[string] // the one that worked last
	userAgent string
	pageSize  int
	timeout   time.Duration
	bounds    bounds
	now       func() time.Time
}

// bounds are what one crawl may cost.
type bounds struct {
	pageBytes, bytes  int64
	pages, emptyPages int
}

// interfaces are the versions of the interface, the best first.
var interfaces = []string{"/v0.1", "/v0"}

// New returns a client, or every mistake in the configuration.
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
	errs := []error{client.at(c.Base, c.InsecureAllowHTTP), client.through(c.HTTP)}
	if client.pageSize < 1 || client.pageSize > 100 {
		errs = append(errs, fmt.Errorf("registry/upstream: a page of %d items: it must be 1 to 100", client.pageSize))
	}
	b := client.bounds
	if client.timeout < 0 || b.pageBytes < 0 || b.bytes < 0 || b.pages < 0 || b.emptyPages < 0 {
		errs = append(errs, errors.New("registry/upstream: a bound below zero"))
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

// at decides where the upstream is.
func (c *Client) at(base string, insecure bool) error {
	fail := func(why string) error { return fmt.Errorf("registry/upstream: the address of the upstream: %s", why) }
	u, err := url.Parse(base)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return fail("it must be an https URL")
	case u.User != nil: // the address is written into logs
		return fail("it must have no user name and no password")
	case u.RawQuery != "" || u.ForceQuery || strings.Contains(base, "#"):
		return fail("it must have no query and no fragment")
	case u.Scheme == "http" && !insecure && !loopback(u.Hostname()):
		return fail("it must be https")
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

// Base returns where the upstream is, without the version of the interface.
func (c *Client) Base() string { return c.base }

// through decides how requests are made.
func (c *Client) through(given *http.Client) error {
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

// maxRedirects is enough for a path that is written in another way.
const maxRedirects = 3

// sameOrigin follows a redirect only to where the request went.
func sameOrigin(r *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return fmt.Errorf("%w: more than %d", ErrRedirect, maxRedirects)
	}
	if from := via[0].URL; r.URL.Scheme != from.Scheme || r.URL.Host != from.Host || r.URL.User != nil {
		return fmt.Errorf("%w: to another origin", ErrRedirect)
	}
	return nil
}

// request is one question to the upstream.
type request struct {
	path        string // below the version of the interface, escaped
	query       url.Values
	ifNoneMatch string
	first       bool  // of a list: where that is not found, there is no such interface
	most        int64 // bytes of the answer
}

// answer is what the upstream said, with 200.
type answer struct {
	header http.Header
	body   []byte
}

// ask asks under one version of the interface after the other until one is not 404.
func (c *Client) ask(ctx context.Context, r request) (a answer, err error) {
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

// order returns the versions of the interface that are worth a try, first the one that
// worked last.
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
	asked, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return answer{}, fmt.Errorf("registry/upstream: %w", err)
	}
	asked.Header.Set("Accept", "application/json, application/problem+json")
	asked.Header.Set("User-Agent", c.userAgent)
	if r.ifNoneMatch != "" {
		asked.Header.Set("If-None-Match", r.ifNoneMatch)
	}
	response, err := c.http.Do(asked)
	if err != nil {
		return answer{}, fmt.Errorf("registry/upstream: %w", err)
	}
	defer response.Body.Close()
	switch {
	case response.StatusCode == http.StatusOK:
		body, err := readAll(response.Body, r.most)
		return answer{response.Header, body}, err
	case response.StatusCode == http.StatusNotModified && r.ifNoneMatch != "":
		return answer{}, ErrNotModified
	}
	return answer{}, c.refusal(response)
}

// readAll reads a body that has at most this many bytes.
func readAll(body io.Reader, most int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(body, most+1))
	if err != nil {
		return nil, fmt.Errorf("registry/upstream: the answer was cut off: %w", err)
	}
	if int64(len(data)) > most {
		return nil, fmt.Errorf("registry/upstream: %w: more than %s bytes", ErrTooLarge, strconv.FormatInt(most, 10))
	}
	return data, nil
}
