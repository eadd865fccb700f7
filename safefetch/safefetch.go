// Package safefetch reads documents at addresses that strangers name: client ID
// metadata documents, key sets behind a jwks_uri, logos.
//
// Whoever may name a URL that a server reads can try to make that server read what only
// it can reach. A [Fetcher] therefore sends nothing but a GET over HTTPS, and only to an
// address of the public internet (draft-ietf-oauth-client-id-metadata-document section
// 8.6). It refuses
//
//   - an address in any special-purpose block of RFC 6890 and its successors, also when it
//     is an IPv4 address inside an IPv6 address, and a name of which even one address is
//     such. Addresses are judged after the lookup, the connection goes to the very address
//     that was judged, and the socket is checked once more before it connects, so a name
//     that changes its mind between two lookups gains nothing;
//   - every other spelling of an address (2130706433, 0x7f.1, 127.1, 127.0.0.1., zones,
//     percent-encoding, letters and digits beyond ASCII) and names that are local by
//     definition;
//   - user information, fragments, ports below 1024 other than 443, and the ports that
//     browsers refuse. Other ports are allowed, because the identifier of a client may have
//     one, and because TLS that must be verified is no language that other servers speak;
//   - redirects, compressed answers, protocols other than HTTP/1.1, TLS below 1.2.
//
// There is no proxy but [Config.Proxy], whatever the environment says, no cookie, no credential, no
// referrer, no connection that is used twice and no second attempt after a connection was
// made. Time, bytes, header bytes and concurrency are bounded. Of several callers who want
// one URL at one time, one fetches and all get the answer.
//
// Every failure that depends on an address (refused here, refused there, no such name,
// wrong certificate, too slow) is [ErrRefused] with the same text, and it is answered no
// sooner than a floor and in steps of it, with jitter, so that neither words nor time tell
// a stranger what is behind an address. [Reason] has the details for the log.
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

// Config says what a [Fetcher] may do. The zero value is the safe one.
type Config struct {
	// Timeout bounds a fetch as a whole: the wait for a free place, the lookup,
	// connecting, TLS, header and body. 0 means 5 s.
	Timeout time.Duration
	// Patience bounds how long a host may hold a place without a sign of life: lookup,
	// connecting and TLS together, then the time to the end of the header. The body may
	// take twice as long. 0 means 1 s; a larger Timeout does not raise it.
	Patience time.Duration
	// Floor is the shortest time after which [ErrRefused] is answered. Later answers come
	// in steps of it, and never later than Timeout. 0 means 200 ms.
	Floor time.Duration
	// MaxBytes is the most that any request may ask for. 0 means 1 MiB.
	MaxBytes int64
	// MaxHeaderBytes bounds the header of an answer. 0 means 16 KiB.
	MaxHeaderBytes int64
	// MaxConcurrent bounds how many fetches run at a time, 0 means 32, and MaxPerHost how
	// many of them for one host name, 0 means 4. One requester ([WithRequester]) has a
	// quarter of them, its wider networks and one address that is asked half of them. Four
	// times as many may wait for a place, in turns by network; more are turned away with
	// [ErrBusy], first those of the network that has most.
	MaxConcurrent int
	MaxPerHost    int

	// Refuse lists further networks that are none of a stranger's business, such as
	// public addresses of one's own and the prefix of a NAT64 gateway.
	Refuse []netip.Prefix
	// InsecureAllowLoopback allows 127.0.0.0/8 and ::1, also over plain HTTP and at
	// any port, and the name localhost for them. It is for development: with it, a
	// stranger can make the server read from the machine that it runs on.
	InsecureAllowLoopback bool

	// Proxy, if set, opens the way to everything but loopback: set it where there is no direct
	// way to the public web. The environment never sets one. Names are looked up here, all
	// addresses judged as without a proxy, and the proxy asked for one of them. Only when
	// [Fetcher.Reach] found that no name can be looked up here, the proxy is asked for names:
	// then addresses that are written as such and names that networks use for themselves are
	// refused here, and what the proxy connects to is for the proxy to judge.
	Proxy *Proxy
	// ProxyByName has the proxy asked for names although they can be looked up here; those that
	// point inside here are refused first. Set it for a proxy that allows names, not addresses.
	ProxyByName bool

	// LookupNetIP finds the addresses of a host name; it is called with the network "ip",
	// once per fetch, and must heed its context. Nil means the resolver of the system,
	// without its search list.
	LookupNetIP func(ctx context.Context, network, host string) ([]netip.Addr, error)
	// RootCAs are trusted instead of the roots of the system.
	RootCAs *x509.CertPool
}

const (
	defaultTimeout        = 5 * time.Second
	defaultPatience       = time.Second
	defaultFloor          = 200 * time.Millisecond
	defaultMaxBytes       = 1 << 20
	defaultMaxHeaderBytes = 16 << 10
	defaultMaxConcurrent  = 32
	defaultMaxPerHost     = 4
	defaultRequestBytes   = 64 << 10 // of a request that says nothing
)

// Fetcher fetches. It is safe for concurrent use and holds nothing of what it fetched.
type Fetcher struct {
	config  Config
	dial    func(context.Context, netip.AddrPort) (net.Conn, error)
	jitter  func(most time.Duration) time.Duration
	gate    *gate
	flights *flights
	// nameless: there is a proxy, and no name can be looked up here.
	nameless atomic.Bool
}

// New returns a Fetcher that obeys c.
func New(c Config) (*Fetcher, error) {
	if c.Timeout < 0 || c.Patience < 0 || c.Floor < 0 || c.MaxBytes < 0 || c.MaxHeaderBytes < 0 || c.MaxConcurrent < 0 || c.MaxPerHost < 0 {
		return nil, errors.New("safefetch: a bound is negative")
	}
	for _, p := range c.Refuse {
		if !p.IsValid() || p.Addr().Is4In6() {
			return nil, errors.New("safefetch: Refuse has a prefix that is none")
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

// Request says what to fetch.
type Request struct {
	// URL is absolute, in ASCII, and at most 2048 bytes long.
	URL string
	// SameOrigin, unless empty, is a URL with which URL must share its origin (RFC 6454
	// section 5).
	SameOrigin string
	// Accept lists the media types that are asked for; an answer of another type is
	// [ErrMediaType]. "image/*" means all subtypes and "application/*+json" all with that
	// suffix; the latter is not sent, because Accept has no such form (RFC 9110 section
	// 12.5.1). With none, every type is welcome.
	Accept []string
	// MaxBytes bounds the body. 0 means 64 KiB, or Config.MaxBytes if that is less.
	MaxBytes int64
	// IfNoneMatch and IfModifiedSince are the ETag and Last-Modified of an answer that
	// the caller has. Only a request with one of them can be answered by 304.
	IfNoneMatch     string
	IfModifiedSince string
	// Lane is what kind of fetch it is. Lanes share the places evenly, however much is
	// wanted in one of them.
	Lane string
}

// Response is an answer with status 200 or 304.
type Response struct {
	URL    string
	Status int
	// Header has what a cache needs to know, and nothing else: Age, Cache-Control,
	// Content-Type, Date, ETag, Expires, Last-Modified.
	Header http.Header
	Body   []byte // empty for 304
}

// Get fetches. Its errors are those of this package, or the context's. The answer is the
// caller's own. When ctx ends, Get returns, and the fetch goes on if others want it too.
func (f *Fetcher) Get(ctx context.Context, r Request) (*Response, error) {
	started := time.Now()
	response, err := f.get(ctx, r)
	if errors.Is(err, ErrRefused) {
		if ended := f.settle(ctx, started); ended != nil {
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
	return f.flights.do(ctx, t.key(), f.turn(r.Lane, t), f.work(t))
}

// Hasten lends the turn of its requester to a fetch that waits for somebody else's, and
// returns when that fetch has begun or its turn does not come. It begins none, and reports
// whether there is one.
func (f *Fetcher) Hasten(ctx context.Context, r Request) bool {
	t, err := f.target(r)
	return err == nil && f.flights.hasten(ctx, t.key(), f.turn(r.Lane, t), f.work(t))
}

// turn waits for the places that a fetch needs.
func (f *Fetcher) turn(lane string, t *target) turn {
	return func(ctx context.Context) (func(), error) { return f.gate.enter(ctx, lane, t.host) }
}

// work is what one flight does, which has its places.
func (f *Fetcher) work(t *target) func(context.Context) (*Response, error) {
	return func(ctx context.Context) (*Response, error) { return f.fetch(ctx, t) }
}

// settle waits until a refusal may be told: the next full step of the floor after what
// was already spent, and up to half a step more, but not beyond the timeout.
func (f *Fetcher) settle(ctx context.Context, started time.Time) error {
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
		return ended(ctx)
	}
}

// fetch connects and asks.
func (f *Fetcher) fetch(ctx context.Context, t *target) (*Response, error) {
	c, err := f.open(ctx, t)
	if err != nil {
		return nil, err
	}
	defer c.end()
	// Whatever the other side is doing, it ends with the context.
	stop := context.AfterFunc(ctx, func() { c.socket.Close() })
	defer stop()
	return f.exchange(ctx, c, t)
}
