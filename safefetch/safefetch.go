// Package safefetch fetches documents from untrusted addresses: client ID metadata documents,
// key sets behind a jwks_uri, logos.
//
// A requester who chooses the URL that a server fetches can try to make it read what only
// that server can reach. A [Fetcher] therefore sends nothing but a GET over HTTPS, and only
// to an address of the public internet (draft-ietf-oauth-client-id-metadata-document section
// 8.6). It refuses
//
//   - an address in any special-purpose block of RFC 6890 and its successors, also as an IPv4
//     address inside an IPv6 address, and a name with at least one such address. Addresses
//     are checked after the lookup, the connection goes to an address that was checked, and
//     the socket is checked again before it connects, so a name whose addresses change
//     between two lookups gains nothing;
//   - every other spelling of an address (2130706433, 0x7f.1, 127.1, 127.0.0.1., zones,
//     percent-encoding, letters and digits beyond ASCII) and names that are local by
//     definition;
//   - user information, fragments, ports below 1024 other than 443, and the ports that
//     browsers refuse. Other ports are allowed, because the identifier of a client may have
//     one, and because servers of other protocols do not complete a verified TLS handshake;
//   - redirects, compressed answers, protocols other than HTTP/1.1, TLS below 1.2.
//
// It uses no proxy but [Config.Proxy], also if the environment names one, sends no cookies,
// credentials or referrer, uses each connection once, and makes no second attempt after it
// connected. Time, bytes, header bytes and concurrency are bounded. Concurrent callers for
// one URL share a fetch.
//
// Every failure that depends on an address (refused by a rule, refused by the host, no such
// name, wrong certificate, too slow) is [ErrRefused] with the same text. It is returned no
// sooner than a floor and in steps of it, with jitter, so that neither the text nor the time
// discloses what is behind an address. [Reason] has the details for the log.
//
//	fetcher, err := safefetch.New(safefetch.Config{})
//	if err != nil {
//		return err
//	}
//	response, err := fetcher.Get(ctx, safefetch.Request{
//		URL:      "https://client.example.com/oauth/metadata.json",
//		Accept:   []string{"application/json", "application/*+json"},
//		MaxBytes: 5 << 10,
//	})
//	if errors.Is(err, safefetch.ErrRefused) {
//		logger.Warn("metadata document", "err", safefetch.Reason(err))
//	}
package safefetch

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"
)

// Config configures a [Fetcher]. The zero value is safe.
type Config struct {
	// Timeout bounds a fetch as a whole: the wait for a free place, the lookup,
	// connecting, TLS, header and body. 0 means 5 s.
	Timeout time.Duration
	// Patience bounds how long a host may delay a step: lookup, connecting and TLS together,
	// then the time to the end of the header. The body may take twice as long. 0 means 1 s;
	// a larger Timeout does not raise it.
	Patience time.Duration
	// Floor is the shortest time after which [ErrRefused] is returned. It is returned in
	// steps of Floor, and never later than Timeout. 0 means 200 ms.
	Floor time.Duration
	// MaxBytes bounds the MaxBytes of a request. 0 means 1 MiB.
	MaxBytes int64
	// MaxHeaderBytes bounds the header of an answer. 0 means 16 KiB.
	MaxHeaderBytes int64
	// MaxConcurrent bounds the number of concurrent fetches; 0 means 32. MaxPerHost bounds
	// those for one host name; 0 means 4. One requester ([WithRequester]) may have a quarter
	// of MaxConcurrent; the networks around it, and the fetches to one address, may have
	// half of it. Four times as many fetches may wait, and networks take turns; others fail
	// with [ErrBusy], first those of the network with most waiting fetches.
	MaxConcurrent int
	MaxPerHost    int

	// Refuse lists further networks to which no fetch may connect. Set it to public addresses
	// of internal services, and to the prefix of a NAT64 gateway.
	Refuse []netip.Prefix
	// InsecureAllowLoopback allows 127.0.0.0/8 and ::1, also over plain HTTP and at any port,
	// and the name localhost for them. Set it for development only: with it, requesters can
	// make the server read from its own machine.
	InsecureAllowLoopback bool

	// Proxy, if set, is used for every address but loopback. Set it where there is no direct
	// way to the public web; the environment is not consulted. The fetcher looks names up,
	// checks all addresses as without a proxy, and asks the proxy to connect to one of them.
	// Only when [Fetcher.Reach] found that no name can be looked up, it asks the proxy to
	// connect to names: then it refuses IP addresses and names that networks use internally,
	// and the proxy must refuse internal addresses.
	Proxy *Proxy
	// ProxyByName makes the fetcher ask the proxy to connect to names even if they can be
	// looked up; names with an internal address are refused first. Set it for a proxy that
	// allows names, not addresses.
	ProxyByName bool

	// LookupNetIP returns the addresses of a host name. It is called with the network "ip",
	// once per fetch, and must return when its context ends. Nil means the resolver of the
	// system, without its search list.
	LookupNetIP func(ctx context.Context, network, host string) ([]netip.Addr, error)
	// RootCAs are trusted instead of the roots of the system. Set it for tests, or if the
	// proxy has a private certificate.
	RootCAs *x509.CertPool
	// Observe, if set, is called after each fetch with its error, nil for an answer, and the
	// time it took, and with an [ErrBusy] and no time for each caller that got no place. It must
	// not block.
	Observe func(err error, took time.Duration)
}

const (
	defaultTimeout        = 5 * time.Second
	defaultPatience       = time.Second
	defaultFloor          = 200 * time.Millisecond
	defaultMaxBytes       = 1 << 20
	defaultMaxHeaderBytes = 16 << 10
	defaultMaxConcurrent  = 32
	defaultMaxPerHost     = 4
	defaultRequestBytes   = 64 << 10 // for Request.MaxBytes
)

// Fetcher fetches documents. It is safe for concurrent use and caches nothing.
type Fetcher struct {
	config  Config
	dial    func(context.Context, netip.AddrPort) (net.Conn, error)
	jitter  func(most time.Duration) time.Duration
	gate    *gate
	flights *flights
	// noLookup is true if there is a proxy and no name can be looked up without it.
	noLookup atomic.Bool
}

// New returns a Fetcher that c configures.
func New(c Config) (*Fetcher, error) {
	if c.Timeout < 0 || c.Patience < 0 || c.Floor < 0 || c.MaxBytes < 0 || c.MaxHeaderBytes < 0 || c.MaxConcurrent < 0 || c.MaxPerHost < 0 {
		return nil, errors.New("safefetch: a bound is negative")
	}
	for _, p := range c.Refuse {
		if !p.IsValid() || p.Addr().Is4In6() {
			return nil, errors.New("safefetch: Refuse has an invalid prefix")
		}
	}
	c = c.withDefaults()
	if c.Floor > c.Timeout {
		return nil, errors.New("safefetch: the floor is above the timeout")
	}
	f := &Fetcher{
		config:  c,
		jitter:  func(most time.Duration) time.Duration { return rand.N(most + 1) },
		gate:    newGate(c.MaxConcurrent, c.MaxPerHost),
		flights: newFlights(c.Timeout),
	}
	f.dial = f.dialTCP
	return f, nil
}

func (c Config) withDefaults() Config {
	c.Timeout = orDefault(c.Timeout, defaultTimeout)
	c.Patience = orDefault(c.Patience, defaultPatience)
	c.Floor = orDefault(c.Floor, defaultFloor)
	c.MaxBytes = orDefault(c.MaxBytes, defaultMaxBytes)
	c.MaxHeaderBytes = orDefault(c.MaxHeaderBytes, defaultMaxHeaderBytes)
	c.MaxConcurrent = orDefault(c.MaxConcurrent, defaultMaxConcurrent)
	c.MaxPerHost = orDefault(c.MaxPerHost, defaultMaxPerHost)
	c.Refuse = slices.Clone(c.Refuse)
	if c.LookupNetIP == nil {
		c.LookupNetIP = lookupAbsolute
	}
	return c
}

func orDefault[T int | int64 | time.Duration](v, whenZero T) T {
	if v == 0 {
		return whenZero
	}
	return v
}

// Request describes a fetch.
type Request struct {
	// URL is absolute, in ASCII, and at most 2048 bytes long.
	URL string
	// SameOrigin, unless empty, is a URL with which URL must share its origin (RFC 6454
	// section 5).
	SameOrigin string
	// Accept lists the accepted media types; the error for another type is [ErrMediaType].
	// "image/*" means all subtypes and "application/*+json" all subtypes with that suffix;
	// the latter is not sent, because Accept has no such form (RFC 9110 section 12.5.1). If
	// Accept is empty, every type is accepted.
	Accept []string
	// MaxBytes bounds the body. 0 means 64 KiB, or Config.MaxBytes if that is less.
	MaxBytes int64
	// IfNoneMatch and IfModifiedSince are the ETag and Last-Modified of an answer that the
	// caller has cached. Only a request with one of them can be answered with 304.
	IfNoneMatch     string
	IfModifiedSince string
	// Lane names a kind of fetches. Lanes share the places evenly, so that many fetches in
	// one do not delay those in another.
	Lane string
}

// Response is an answer with status 200 or 304.
type Response struct {
	URL    string
	Status int
	// Header has the fields for caches and the media type, and no others: Age, Cache-Control,
	// Content-Type, Date, ETag, Expires, Last-Modified.
	Header http.Header
	Body   []byte // empty for 304
}

// Get fetches a document. Its error is an [*Error], or wraps that of ctx. The caller may change
// the response. When ctx ends, Get returns; the fetch goes on if other callers wait for it.
func (f *Fetcher) Get(ctx context.Context, r Request) (*Response, error) {
	started := time.Now()
	response, err := f.get(ctx, r)
	if errors.Is(err, ErrRefused) {
		if ended := f.delayRefusal(ctx, started); ended != nil {
			return nil, ended
		}
	}
	if err != nil {
		return nil, err
	}
	own := *response
	own.Header, own.Body = response.Header.Clone(), bytes.Clone(response.Body)
	return &own, nil
}

func (f *Fetcher) get(ctx context.Context, r Request) (*Response, error) {
	t, err := f.target(r)
	if err != nil {
		return nil, err
	}
	response, err := f.flights.do(ctx, t.key(), f.turn(r.Lane, t), f.work(t))
	f.observeBusy(err)
	return response, err
}

// Hasten lets a fetch that waits for the turn of another requester begin in the turn of the
// requester of ctx. It returns when that fetch has begun or the turn cannot come, and reports
// whether there is a waiting fetch for r. It does not start one.
func (f *Fetcher) Hasten(ctx context.Context, r Request) bool {
	t, err := f.target(r)
	return err == nil && f.flights.hasten(ctx, t.key(), f.turn(r.Lane, t), f.work(t))
}

// turn returns the function that waits for the places of a fetch.
func (f *Fetcher) turn(lane string, t *target) turn {
	return func(ctx context.Context) (func(), error) { return f.gate.enter(ctx, lane, t.host) }
}

// delayRefusal waits until [ErrRefused] may be returned: until the next full step of the floor
// since started, and up to half a step more, but not beyond the timeout.
func (f *Fetcher) delayRefusal(ctx context.Context, started time.Time) error {
	spent, floor := time.Since(started), f.config.Floor
	wait := (spent/floor+1)*floor + f.jitter(floor/2) - spent
	wait = min(wait, f.config.Timeout-spent)
	if wait <= 0 {
		return nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return contextError(ctx)
	}
}

// fetch connects, sends the request and reads the answer.
func (f *Fetcher) fetch(ctx context.Context, t *target) (*Response, error) {
	c, err := f.open(ctx, t)
	if err != nil {
		return nil, err
	}
	defer c.end()
	// Closing the socket ends every read and write when the context ends.
	stop := context.AfterFunc(ctx, func() { c.socket.Close() })
	defer stop()
	return f.exchange(ctx, c, t)
}
