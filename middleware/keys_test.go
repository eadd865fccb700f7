package middleware_test

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"gatehouse.example/metadata"
	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

const (
	asPath  = "/.well-known/oauth-authorization-server"
	jwkPath = "/jwks.json"
)

// clocked returns an issuer, a guard for it, and the clock that both the guard and the
// tokens of mint follow.
func clocked(t *testing.T) (*middlewaretest.Issuer, *middleware.Guard, *clock, func() *http.Request) {
	t.Helper()
	issuer, clock := middlewaretest.NewIssuer(t), newClock()
	guard := newGuard(t, issuer, func(c *middleware.Config) { c.Now = clock.Now })
	mint := func() *http.Request {
		now := clock.Now()
		return withToken(issuer.Mint(claims{"aud": resource, "iat": now.Unix(), "exp": now.Add(time.Hour).Unix()}))
	}
	return issuer, guard, clock, mint
}

// unknownKey returns a request whose token names a key that the issuer never had.
func unknownKey(t *testing.T, issuer *middlewaretest.Issuer, clock *clock) *http.Request {
	t.Helper()
	now := clock.Now()
	return withToken(middlewaretest.NewIssuer(t).Mint(claims{"iss": issuer.URL(), "aud": resource, "iat": now.Unix(), "exp": now.Add(time.Hour).Unix()}))
}

func status(guard *middleware.Guard, r *http.Request) (int, http.Header) {
	res := serve(guard.Protect(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})), r)
	return res.StatusCode, res.Header
}

func wantStatus(t *testing.T, guard *middleware.Guard, r *http.Request, want int) http.Header {
	t.Helper()
	got, header := status(guard, r)
	if got != want {
		t.Fatalf("the status is %d, want %d", got, want)
	}
	return header
}

func wantFetches(t *testing.T, issuer *middlewaretest.Issuer, want int) {
	t.Helper()
	if got := issuer.KeyRequests(); got != want {
		t.Fatalf("the keys were fetched %d times, want %d", got, want)
	}
}

// eventually waits for something that happens in the background.
func eventually(t *testing.T, what string, happened func() bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for !happened() {
		if time.Now().After(deadline) {
			t.Fatalf("%s did not happen", what)
		}
		time.Sleep(time.Millisecond)
	}
}

func TestAlgorithms(t *testing.T) {
	for _, algorithm := range []jose.SignatureAlgorithm{jose.ES256, jose.EdDSA, jose.RS256, jose.PS256} {
		issuer := middlewaretest.NewIssuer(t)
		issuer.Rotate(algorithm)
		passes(t, newGuard(t, issuer), withToken(issuer.Mint(claims{"aud": resource})))
	}
}

func TestNothingIsFetchedForNothing(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer)
	wantStatus(t, guard, newRequest("POST", resource), 401)
	wantStatus(t, guard, withToken("not.a.token"), 401)
	wantStatus(t, guard, withToken(issuer.Mint(claims{"aud": "https://other.example.org"})), 401)
	wantStatus(t, guard, withToken(issuer.Mint(claims{"aud": resource, "iss": "https://other.example.org"})), 401)
	wantStatus(t, guard, withToken(issuer.Mint(claims{"aud": resource, "exp": 1})), 401)
	wantFetches(t, issuer, 0)
}

func TestKeysAreCached(t *testing.T) {
	for _, tt := range []struct {
		cacheControl string
		life         time.Duration
	}{
		{"max-age=3600", time.Hour},
		{"public, Max-Age=\"3600\", immutable", time.Hour},
		{"max-age=1", 5 * time.Minute},
		{"max-age=0", 5 * time.Minute},
		{"max-age=-1", 5 * time.Minute},
		{"max-age=soon", 5 * time.Minute},
		{"max-age", 5 * time.Minute},
		{"no-store", 5 * time.Minute},
		{"no-cache, max-age=86400", 5 * time.Minute},
		{"max-age=31536000", 24 * time.Hour},
		{"max-age=99999999999999999999", 5 * time.Minute},
		{"public", 15 * time.Minute},
	} {
		issuer, guard, clock, mint := clocked(t)
		issuer.SetCacheControl(tt.cacheControl)
		for range 3 {
			wantStatus(t, guard, mint(), 200)
		}
		clock.Advance(tt.life*4/5 - time.Second)
		wantStatus(t, guard, mint(), 200)
		wantFetches(t, issuer, 1)
		// The last fifth: renewed in the background.
		clock.Advance(2 * time.Second)
		wantStatus(t, guard, mint(), 200)
		eventually(t, "the renewal for "+tt.cacheControl, func() bool { return issuer.KeyRequests() == 2 })
	}
}

func TestExpiredKeysAreRenewedBeforeUse(t *testing.T) {
	issuer, guard, clock, mint := clocked(t)
	old := mint()
	wantStatus(t, guard, old, 200)
	issuer.Rotate(jose.ES256)
	wantStatus(t, guard, old, 200) // the old key is cached
	clock.Advance(5 * time.Minute)
	wantStatus(t, guard, old, 401) // the issuer took it back
	wantStatus(t, guard, mint(), 200)
	wantFetches(t, issuer, 2)
}

func TestRotationIsSeenAtOnce(t *testing.T) {
	issuer, guard, clock, mint := clocked(t)
	wantStatus(t, guard, mint(), 200)
	clock.Advance(31 * time.Second)
	issuer.Rotate(jose.EdDSA)
	wantStatus(t, guard, mint(), 200)
	wantFetches(t, issuer, 2)
}

func TestUnknownKeysAreRateLimited(t *testing.T) {
	issuer, guard, clock, mint := clocked(t)
	wantStatus(t, guard, mint(), 200)
	foreign := unknownKey(t, issuer, clock)
	for range 50 {
		if got, header := status(guard, foreign); got != 401 || !strings.Contains(header.Get("WWW-Authenticate"), `error="invalid_token"`) {
			t.Fatalf("the status is %d", got)
		}
	}
	wantFetches(t, issuer, 1)
	for n := range 3 {
		clock.Advance(30 * time.Second)
		for range 50 {
			wantStatus(t, guard, foreign, 401)
		}
		wantFetches(t, issuer, 2+n)
	}
	wantStatus(t, guard, mint(), 200)
}

func TestColdStartWithoutTheIssuer(t *testing.T) {
	issuer, guard, clock, mint := clocked(t)
	issuer.SetDown(true)
	for range 20 {
		header := wantStatus(t, guard, mint(), 503)
		if seconds, err := strconv.Atoi(header.Get("Retry-After")); err != nil || seconds < 1 || seconds > 60 {
			t.Fatalf("Retry-After: %q", header.Get("Retry-After"))
		}
		if header.Get("WWW-Authenticate") != "" || header.Get("Cache-Control") != "no-store" {
			t.Fatalf("%v", header)
		}
	}
	wantStatus(t, guard, newRequest("POST", resource), 401)
	wantFetches(t, issuer, 0)
	issuer.SetDown(false)
	wantStatus(t, guard, mint(), 503) // too early to try again
	clock.Advance(2 * time.Second)
	wantStatus(t, guard, mint(), 200)
	wantFetches(t, issuer, 1)
}

func TestOldKeysServeWhileTheIssuerIsDown(t *testing.T) {
	issuer, guard, clock, mint := clocked(t)
	wantStatus(t, guard, mint(), 200)
	issuer.SetDown(true)
	for range 10 {
		clock.Advance(time.Hour)
		wantStatus(t, guard, mint(), 200)
	}
	// The issuer may have published this key since the last fetch.
	wantStatus(t, guard, unknownKey(t, issuer, clock), 503)
	wantStatus(t, guard, withToken(issuer.Mint(claims{"aud": "https://other.example.org"})), 401)
	issuer.SetDown(false)
	issuer.Rotate(jose.ES256)
	clock.Advance(31 * time.Second)
	wantStatus(t, guard, mint(), 200)
}

// hanging is a transport that, once switched on, blocks each request until the test lets it fail.
type hanging struct {
	on       atomic.Bool
	attempts atomic.Int32
	fail     chan struct{} // lets one request fail
}

func (h *hanging) RoundTrip(r *http.Request) (*http.Response, error) {
	if !h.on.Load() {
		return http.DefaultTransport.RoundTrip(r)
	}
	h.attempts.Add(1)
	<-h.fail
	return nil, context.DeadlineExceeded
}

// An issuer that accepts connections and does not respond delays requests until the first attempt
// has failed, and none later, although each attempt hangs.
func TestNobodyWaitsForAHangingIssuerTwice(t *testing.T) {
	issuer, clock, transport := middlewaretest.NewIssuer(t), newClock(), &hanging{fail: make(chan struct{})}
	guard := newGuard(t, issuer, func(c *middleware.Config) {
		c.Now, c.Client = clock.Now, &http.Client{Transport: transport}
	})
	mint := func() *http.Request {
		now := clock.Now()
		return withToken(issuer.Mint(claims{"aud": resource, "iat": now.Unix(), "exp": now.Add(time.Hour).Unix()}))
	}
	wantStatus(t, guard, mint(), 200)
	transport.on.Store(true)
	clock.Advance(time.Hour)
	first := make(chan int, 1)
	go func() {
		code, _ := status(guard, mint())
		first <- code
	}()
	transport.fail <- struct{}{}
	if code := <-first; code != 200 {
		t.Fatalf("the first request: %d", code)
	}
	for n := range int32(3) {
		eventually(t, "the next attempt", func() bool {
			clock.Advance(time.Minute)
			wantStatus(t, guard, mint(), 200)
			return transport.attempts.Load() == n+2
		})
		for range 5 {
			wantStatus(t, guard, mint(), 200) // while the attempt hangs
		}
		transport.fail <- struct{}{}
	}
	transport.on.Store(false)
	issuer.Rotate(jose.ES256)
	eventually(t, "the new key", func() bool {
		clock.Advance(time.Minute)
		code, _ := status(guard, mint())
		return code == 200
	})
}

func TestOneFetchForAll(t *testing.T) {
	issuer, guard, _, mint := clocked(t)
	var metadataRequests atomic.Int32
	release := make(chan struct{})
	good, err := metadata.Serve(metadata.AuthorizationServer{Issuer: issuer.URL(), JWKSURI: issuer.URL() + jwkPath})
	if err != nil {
		t.Fatal(err)
	}
	issuer.SetDocument(asPath, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		metadataRequests.Add(1)
		<-release
		good.ServeHTTP(w, r)
	}))

	// The request that begins the fetch is cancelled, which must not affect the others.
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan int)
	request := mint().WithContext(ctx)
	go func() {
		code, _ := status(guard, request)
		first <- code
	}()
	eventually(t, "the first fetch", func() bool { return metadataRequests.Load() == 1 })
	cancel()
	if code := <-first; code != 503 {
		t.Errorf("the request that gave up got %d", code)
	}

	var wg sync.WaitGroup
	codes := make(chan int, 64)
	for range cap(codes) {
		request := mint()
		wg.Go(func() {
			code, _ := status(guard, request)
			codes <- code
		})
	}
	close(release)
	wg.Wait()
	close(codes)
	for code := range codes {
		if code != 200 {
			t.Errorf("a request got %d", code)
		}
	}
	if n := metadataRequests.Load(); n != 1 {
		t.Errorf("the metadata was fetched %d times", n)
	}
	wantFetches(t, issuer, 1)
}
