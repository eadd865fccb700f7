package middleware_test

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// foreignToken returns a request whose token names a key that the issuer never had, issued some
// time before now.
func foreignToken(t *testing.T, issuer *middlewaretest.Issuer, clock *clock, age time.Duration) *http.Request {
	t.Helper()
	now := clock.Now()
	return withToken(middlewaretest.NewIssuer(t).Mint(claims{"iss": issuer.URL(), "aud": resource,
		"iat": now.Add(-age).Unix(), "exp": now.Add(time.Hour).Unix()}))
}

func wantLater(t *testing.T, guard *middleware.Guard, r *http.Request) {
	t.Helper()
	header := wantStatus(t, guard, r, 503)
	if seconds, err := strconv.Atoi(header.Get("Retry-After")); err != nil || seconds < 1 || seconds > 30 || header.Get("WWW-Authenticate") != "" {
		t.Fatalf("Retry-After: %q, the header is %v", header.Get("Retry-After"), header)
	}
}

// spend uses up the early fetches.
func spend(t *testing.T, guard *middleware.Guard, issuer *middlewaretest.Issuer, clock *clock) {
	t.Helper()
	for range 20 {
		clock.Advance(time.Millisecond)
		if code, _ := status(guard, foreignToken(t, issuer, clock, 0)); code == 503 {
			return
		}
	}
	t.Fatal("each of 20 unknown keys led to a fetch")
}

// TestRestartedIssuer checks that tokens from before an issuer lost its keys are 401 once the
// new keys are fetched, so that clients sign in again, also while the issuer is down.
func TestRestartedIssuer(t *testing.T) {
	issuer, guard, clock, mint := clocked(t)
	old := mint()
	wantStatus(t, guard, old, 200)
	clock.Advance(time.Minute)
	issuer.Rotate(jose.ES256)
	clock.Advance(time.Minute)
	wantStatus(t, guard, mint(), 200) // the new keys are known
	wantStatus(t, guard, old, 401)
	issuer.SetDown(true)
	clock.Advance(31 * time.Second)
	wantStatus(t, guard, old, 401)
	wantLater(t, guard, foreignToken(t, issuer, clock, 0))

	// A guard that starts later never had the old keys.
	issuer.SetDown(false)
	late := newGuard(t, issuer, func(c *middleware.Config) { c.Now = clock.Now })
	wantStatus(t, late, old, 401)
}

// TestTokensNewerThanTheKeys checks that a token with a key that may have been published after
// the last fetch is not 401.
func TestTokensNewerThanTheKeys(t *testing.T) {
	issuer, guard, clock, mint := clocked(t)
	wantStatus(t, guard, mint(), 200)
	spend(t, guard, issuer, clock)
	fetches := issuer.KeyRequests()
	// The clocks may differ by ten seconds, so a token whose time of issue is slightly before the
	// fetch may still be newer.
	for age, want := range map[time.Duration]int{0: 503, 9 * time.Second: 503, 12 * time.Second: 401, time.Minute: 401} {
		clock.Advance(time.Millisecond)
		wantStatus(t, guard, foreignToken(t, issuer, clock, age), want)
	}
	wantFetches(t, issuer, fetches)
	// A key that is published at this moment: 503 first, accepted later.
	issuer.Rotate(jose.EdDSA)
	fresh := mint()
	wantLater(t, guard, fresh)
	clock.Advance(30 * time.Second)
	wantStatus(t, guard, fresh, 200)
	wantFetches(t, issuer, fetches+1)
}

// TestRotationIsSeenInAFlood checks that new keys are fetched during a flood of invalid tokens,
// at a rate that does not grow with the flood.
func TestRotationIsSeenInAFlood(t *testing.T) {
	issuer, guard, clock, mint := clocked(t)
	wantStatus(t, guard, mint(), 200)
	begin, fetches := clock.Now(), issuer.KeyRequests()
	ages := []time.Duration{0, -9 * time.Second, -time.Hour, time.Hour, 5 * time.Second}
	flood := func(n int) {
		r := foreignToken(t, issuer, clock, ages[n%len(ages)])
		r.RemoteAddr = "203.0." + strconv.Itoa(n%250) + ".7:1000"
		if code, _ := status(guard, r); code == 200 {
			t.Fatal("a stranger was let through")
		}
	}
	for n := range 200 {
		clock.Advance(time.Second)
		flood(n)
	}
	if most := int(clock.Now().Sub(begin)/(30*time.Second)) + 6; issuer.KeyRequests()-fetches > most {
		t.Fatalf("the keys were fetched %d times", issuer.KeyRequests()-fetches)
	}
	issuer.Rotate(jose.ES256)
	fresh, seen := mint(), false
	for n := range 31 {
		flood(n)
		if code, _ := status(guard, fresh); code == 200 {
			seen = true
			break
		} else if code != 503 {
			t.Fatalf("a good token was answered with %d", code)
		}
		clock.Advance(time.Second)
	}
	if !seen {
		t.Error("the new key was not seen in 30 s")
	}
}

// TestFetchInProgress checks that a fetch that began before a token was issued proves nothing
// about its key.
func TestFetchInProgress(t *testing.T) {
	issuer, _, clock, mint := clocked(t)
	var looks atomic.Int32 // at the clock
	guard := newGuard(t, issuer, func(c *middleware.Config) {
		c.Now = func() time.Time { defer looks.Add(1); return clock.Now() }
	})
	held, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	old := issuer.Mint(claims{"aud": resource, "exp": clock.Now().Add(time.Hour).Unix()})
	before := jwksOf(t, issuer)
	issuer.SetDocument(jwkPath, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		once.Do(func() { close(held) })
		<-release
		_, _ = w.Write([]byte(before)) // as it was
	}))
	first := make(chan int, 1)
	go func() {
		code, _ := status(guard, withToken(old))
		first <- code
	}()
	<-held
	clock.Advance(5 * time.Second)
	issuer.Rotate(jose.EdDSA)
	after := mint()
	second, seen := make(chan int, 1), looks.Load()
	go func() {
		code, _ := status(guard, after)
		second <- code
	}()
	eventually(t, "the arrival of the second token", func() bool { return looks.Load() >= seen+2 })
	close(release)
	if code := <-first; code != 200 {
		t.Errorf("the first token: %d", code)
	}
	if code := <-second; code != 200 {
		t.Errorf("the token that came during the fetch: %d", code)
	}
}

func jwksOf(t *testing.T, issuer *middlewaretest.Issuer) string {
	t.Helper()
	res, err := http.Get(issuer.URL() + jwkPath)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	var b strings.Builder
	if err := res.Write(&b); err != nil {
		t.Fatal(err)
	}
	_, body, _ := strings.Cut(b.String(), "\r\n\r\n")
	return body
}

// TestIssuedAt checks that a token with an unreadable or future time of issue causes no fetch.
func TestIssuedAt(t *testing.T) {
	issuer, guard, clock, _ := clocked(t)
	other := middlewaretest.NewIssuer(t)
	now := clock.Now()
	for _, iat := range []any{nil, "now", "1700000000", true, -1, 0, 1e300, []int{1}, now.Add(time.Hour).Unix(), now.Add(100 * 365 * 24 * time.Hour).Unix(), now.UnixMilli()} {
		token := other.Mint(claims{"iss": issuer.URL(), "aud": resource, "iat": iat, "exp": now.Add(time.Hour).Unix()})
		wantStatus(t, guard, withToken(token), 401)
	}
	wantFetches(t, issuer, 0)
	// A clock that is some seconds ahead is accepted.
	wantStatus(t, guard, withToken(issuer.Mint(claims{"aud": resource, "iat": now.Add(9 * time.Second).Unix(), "exp": now.Add(time.Hour).Unix()})), 200)
}

// TestAnswersOfACache checks that the Age of a response from an HTTP cache counts as the age of
// the keys.
func TestAnswersOfACache(t *testing.T) {
	for age, want := range map[string]int{"": 401, "0": 401, "3600": 503, "soon": 503, "-1": 503} {
		issuer, guard, clock, _ := clocked(t)
		keys := jwksOf(t, issuer)
		var asked string
		issuer.SetDocument(jwkPath, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked = r.Header.Get("Cache-Control")
			w.Header().Set("Age", age)
			_, _ = w.Write([]byte(keys))
		}))
		wantStatus(t, guard, foreignToken(t, issuer, clock, time.Minute), want)
		if asked != "no-cache" {
			t.Errorf("Cache-Control of the request is %q", asked)
		}
	}
}

// TestIssuersApart checks that invalid tokens of one issuer do not affect the tokens of
// another.
func TestIssuersApart(t *testing.T) {
	one, two, clock := middlewaretest.NewIssuer(t), middlewaretest.NewIssuer(t), newClock()
	guard := newGuard(t, one, func(c *middleware.Config) {
		c.Now, c.AuthorizationServers = clock.Now, []string{one.URL(), two.URL()}
	})
	wantStatus(t, guard, withToken(one.Mint(claims{"aud": resource})), 200)
	spend(t, guard, one, clock)
	wantLater(t, guard, foreignToken(t, one, clock, 0))
	wantStatus(t, guard, withToken(two.Mint(claims{"aud": resource})), 200)
	two.Rotate(jose.EdDSA)
	clock.Advance(time.Second)
	wantStatus(t, guard, withToken(two.Mint(claims{"aud": resource, "iat": clock.Now().Unix()})), 200)
}

// TestStaleKeysEnd checks that keys end although the issuer cannot be reached.
func TestStaleKeysEnd(t *testing.T) {
	for name, tt := range map[string]struct {
		stale        time.Duration
		cacheControl string
		most         time.Duration
	}{
		"default":                  {0, "max-age=300", 24 * time.Hour},
		"as configured":            {time.Hour, "max-age=300", time.Hour},
		"what the issuer allows":   {time.Hour, "max-age=7200", 2 * time.Hour},
		"none":                     {-1, "max-age=600", 10 * time.Minute},
		"longer than what is kept": {72 * time.Hour, "max-age=86400", 72 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			issuer, clock := middlewaretest.NewIssuer(t), newClock()
			issuer.SetCacheControl(tt.cacheControl)
			guard := newGuard(t, issuer, func(c *middleware.Config) { c.Now, c.StaleKeys = clock.Now, tt.stale })
			token := withToken(issuer.Mint(claims{"aud": resource, "exp": clock.Now().Add(1000 * time.Hour).Unix()}))
			wantStatus(t, guard, token, 200)
			issuer.SetDown(true)
			clock.Advance(tt.most - time.Second)
			wantStatus(t, guard, token, 200)
			clock.Advance(2 * time.Second)
			wantLater(t, guard, token)
			clock.Advance(time.Minute)
			wantLater(t, guard, token)
			issuer.SetDown(false)
			clock.Advance(31 * time.Second)
			wantStatus(t, guard, token, 200)
		})
	}
}

// TestTokensWithoutAKeyID checks that a token without "kid" is accepted when exactly one key
// fits, by use and algorithm.
func TestTokensWithoutAKeyID(t *testing.T) {
	key := func(id string, algorithm jose.SignatureAlgorithm, use string) jose.JSONWebKey {
		return jose.JSONWebKey{Key: middlewaretest.NewKey(t, algorithm), KeyID: id, Algorithm: string(algorithm), Use: use}
	}
	mine := key("", jose.ES256, "sig")
	named := mine
	named.KeyID = "one"
	for name, tt := range map[string]struct {
		published []jose.JSONWebKey
		want      int
	}{
		"one key":                                {[]jose.JSONWebKey{named}, 200},
		"one key that has no name either":        {[]jose.JSONWebKey{mine}, 200},
		"beside keys for other algorithms":       {[]jose.JSONWebKey{key("two", jose.EdDSA, ""), named, key("three", jose.RS256, "sig")}, 200},
		"beside a key for encryption":            {[]jose.JSONWebKey{key("two", jose.ES256, "enc"), named}, 200},
		"beside another key":                     {[]jose.JSONWebKey{named, key("two", jose.ES256, "")}, 401},
		"beside another key that has no name":    {[]jose.JSONWebKey{named, key("", jose.ES256, "sig")}, 401},
		"the same key under two names":           {[]jose.JSONWebKey{named, key("one", jose.ES256, "sig")}, 401},
		"another key":                            {[]jose.JSONWebKey{key("two", jose.ES256, "sig")}, 401},
		"the key is for encryption":              {[]jose.JSONWebKey{{Key: mine.Key, Algorithm: "ES256", Use: "enc"}, key("two", jose.EdDSA, "sig")}, 401},
		"no key for the algorithm of the header": {[]jose.JSONWebKey{key("two", jose.RS256, "sig")}, 401},
	} {
		t.Run(name, func(t *testing.T) {
			issuer := middlewaretest.NewIssuer(t)
			issuer.SetKeys(append([]jose.JSONWebKey{mine}, tt.published...)...)
			token := issuer.Mint(claims{"aud": resource})
			issuer.SetKeys(tt.published...)
			guard := newGuard(t, issuer)
			wantStatus(t, guard, withToken(token), tt.want)
			wantStatus(t, guard, withToken(token), tt.want)
		})
	}
}

// TestRotationWithoutKeyIDs checks a change of the only key.
func TestRotationWithoutKeyIDs(t *testing.T) {
	issuer, guard, clock, mint := clocked(t)
	rotate := func() {
		issuer.SetKeys(jose.JSONWebKey{Key: middlewaretest.NewKey(t, jose.ES256), Algorithm: "ES256"})
	}
	rotate()
	wantStatus(t, guard, mint(), 200)
	old := mint()
	clock.Advance(31 * time.Second)
	rotate()
	wantStatus(t, guard, mint(), 200)
	wantStatus(t, guard, old, 401)
	wantFetches(t, issuer, 2)
}
