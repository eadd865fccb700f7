package middleware_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// TestCachedTokensAreCheap checks that a cached token costs no allocation.
func TestCachedTokensAreCheap(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	for name, guard := range map[string]*middleware.Guard{
		"JWT":    newGuard(t, issuer),
		"both":   newGuard(t, issuer, introspects(issuer, func(i *middleware.Introspection) { i.Fresh = time.Hour })),
		"opaque": newGuard(t, issuer, introspects(issuer, opaque, func(i *middleware.Introspection) { i.Fresh = time.Hour })),
	} {
		token := issuer.Mint(claims{"aud": resource, "scope": "notes:read notes:write"})
		first := wantVerdict(t, guard, token, nil)
		allocations := testing.AllocsPerRun(100, func() {
			if got, err := guard.Verify(t.Context(), token); err != nil || got != first {
				t.Fatalf("%s: %v, %v", name, got, err)
			}
		})
		if allocations > 2 {
			t.Errorf("%s: %v allocations", name, allocations)
		}
	}
	// Invalid tokens are not cached, and the cache can be disabled.
	guard, token := newGuard(t, issuer, uncached), issuer.Mint(claims{"aud": resource})
	if remembers(t, guard, token) {
		t.Error("the token is remembered")
	}
}

// remembers reports whether a guard has a good token in its cache the second time.
func remembers(t *testing.T, guard *middleware.Guard, token string) bool {
	t.Helper()
	first := wantVerdict(t, guard, token, nil)
	return wantVerdict(t, guard, token, nil) == first
}

// TestCacheObeysTheClock compares a guard with a cache to one without, while the clock moves,
// also backwards.
func TestCacheObeysTheClock(t *testing.T) {
	issuer, clock := middlewaretest.NewIssuer(t), newClock()
	issuer.SetCacheControl("max-age=86400")
	now := func(c *middleware.Config) { c.Now = clock.Now }
	cached, other := newGuard(t, issuer, now), newGuard(t, issuer, now, uncached)
	start := clock.Now().Truncate(time.Second)
	at := func(d time.Duration) int64 { return start.Add(d).Unix() }
	clock.Advance(start.Sub(clock.Now()))
	tokens := []string{
		issuer.Mint(claims{"aud": resource, "iat": at(0), "exp": at(time.Minute)}),
		issuer.Mint(claims{"aud": resource, "iat": at(-time.Hour), "exp": at(time.Minute)}),
		issuer.Mint(claims{"aud": resource, "iat": at(-time.Hour), "nbf": at(-time.Minute), "exp": at(time.Hour)}),
		issuer.Mint(claims{"aud": resource, "iat": at(-time.Hour), "nbf": at(time.Minute), "exp": at(time.Hour)}),
	}
	statuses := make(map[int]int)
	for _, step := range []time.Duration{0, 0, 50, 1, 18, 1, 1, 0, 600, -600, -80, -1, 100, -1000, 1000, 3600, 3600} {
		clock.Advance(step * time.Second)
		for n, token := range tokens {
			got, _ := status(cached, withToken(token))
			want, _ := status(other, withToken(token))
			if got != want {
				t.Errorf("token %d at %v: %d, want %d", n, clock.Now().Sub(start), got, want)
			}
			statuses[got]++
		}
	}
	if statuses[200] < 10 || statuses[401] < 10 {
		t.Errorf("the test shows little: %v", statuses)
	}
}

// TestWithdrawnKeyEndsCachedTokens checks that cached tokens end once a fetch shows that their
// key is gone.
func TestWithdrawnKeyEndsCachedTokens(t *testing.T) {
	issuer, guard, clock, mint := clocked(t)
	old := mint()
	for range 3 {
		wantStatus(t, guard, old, 200)
	}
	wantFetches(t, issuer, 1)
	// A token of the new key starts a fetch before the old keys are due for renewal.
	issuer.Rotate(jose.ES256)
	wantStatus(t, guard, old, 200)
	clock.Advance(31 * time.Second)
	wantStatus(t, guard, mint(), 200)
	wantFetches(t, issuer, 2)
	wantStatus(t, guard, old, 401)
}

// TestCachedTokensRenewKeys checks that requests with a cached token renew the keys in time, and
// that the token ends with its key, although there are no requests with other tokens.
func TestCachedTokensRenewKeys(t *testing.T) {
	issuer, clock := middlewaretest.NewIssuer(t), newClock()
	issuer.SetCacheControl("max-age=1000")
	guard := newGuard(t, issuer, func(c *middleware.Config) { c.Now = clock.Now })
	token := issuer.Mint(claims{"aud": resource, "exp": clock.Now().Add(time.Hour).Unix()})
	remembered := func() bool { return remembers(t, guard, token) }
	if !remembered() {
		t.Fatal("the token is not remembered")
	}
	clock.Advance(799 * time.Second)
	if !remembered() {
		t.Fatal("the token was forgotten too early")
	}
	wantFetches(t, issuer, 1)
	clock.Advance(2 * time.Second)
	wantVerdict(t, guard, token, nil)
	eventually(t, "the renewal", remembered)
	wantFetches(t, issuer, 2)
	issuer.Rotate(jose.ES256)
	clock.Advance(801 * time.Second)
	eventually(t, "the end of the token", func() bool {
		code, _ := status(guard, withToken(token))
		return code == http.StatusUnauthorized
	})
	wantFetches(t, issuer, 3)
}

// TestCachedTokensOfAnIssuerThatIsDown checks that cached tokens are accepted while their issuer
// is down, as other tokens are.
func TestCachedTokensOfAnIssuerThatIsDown(t *testing.T) {
	issuer, guard, clock, mint := clocked(t)
	token := mint()
	wantStatus(t, guard, token, 200)
	issuer.SetDown(true)
	clock.Advance(30 * time.Minute)
	wantStatus(t, guard, token, 200)
	wantStatus(t, guard, token, 200)
	clock.Advance(time.Hour)
	wantStatus(t, guard, token, 401)
}

// TestCacheIsBounded puts three times as many tokens into caches as they hold.
func TestCacheIsBounded(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	issuer.Rotate(jose.EdDSA)
	for _, bound := range []int{1, 2, 3, 4, 5, 7, 8, 64, 100} {
		guard := newGuard(t, issuer, func(c *middleware.Config) { c.CachedTokens = bound })
		tokens, first := make([]string, 3*bound), make([]*middleware.Token, 3*bound)
		for n := range tokens {
			tokens[n] = issuer.Mint(claims{"aud": resource, "sub": fmt.Sprint(n)})
			first[n] = wantVerdict(t, guard, tokens[n], nil)
		}
		remembered := 0
		for n, token := range tokens {
			again := wantVerdict(t, guard, token, nil)
			if again.Subject != fmt.Sprint(n) {
				t.Fatalf("token %d is %q's", n, again.Subject)
			}
			if again == first[n] {
				remembered++
			}
		}
		if remembered > bound {
			t.Errorf("%d tokens are remembered, the bound is %d", remembered, bound)
		}
		if !remembers(t, guard, tokens[0]) {
			t.Errorf("bound %d: nothing is remembered", bound)
		}
	}
}

// TestCacheKeepsWhatIsUsed checks that a token in constant use stays in a full cache.
func TestCacheKeepsWhatIsUsed(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	issuer.Rotate(jose.EdDSA)
	guard := newGuard(t, issuer, func(c *middleware.Config) { c.CachedTokens = 4 })
	busy := issuer.Mint(claims{"aud": resource})
	first := wantVerdict(t, guard, busy, nil)
	for range 50 {
		if wantVerdict(t, guard, busy, nil) != first {
			t.Fatal("the token was forgotten")
		}
		wantVerdict(t, guard, issuer.Mint(claims{"aud": resource}), nil)
	}
}

// TestCacheAmongMany uses a guard concurrently, while keys change and responses expire.
func TestCacheAmongMany(t *testing.T) {
	issuer, clock := middlewaretest.NewIssuer(t), newClock()
	issuer.Rotate(jose.EdDSA)
	key := middlewaretest.NewKey(t, jose.EdDSA)
	keys := []jose.JSONWebKey{{Key: key, KeyID: "one", Algorithm: string(jose.EdDSA)}}
	issuer.SetKeys(keys...)
	guard := newGuard(t, issuer, introspects(issuer), func(c *middleware.Config) { c.Now, c.CachedTokens = clock.Now, 16 })
	tokens, revoked := make([]string, 40), make([]string, 10)
	exp := clock.Now().Add(time.Hour).Unix()
	for n := range tokens {
		tokens[n] = issuer.Mint(claims{"aud": resource, "sub": fmt.Sprint(n), "exp": exp})
	}
	for n := range revoked {
		revoked[n] = issuer.Mint(claims{"aud": resource, "exp": exp})
		issuer.Revoke(revoked[n])
	}
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for n := range 200 {
				i := (n*7 + worker*13) % len(tokens)
				token, err := guard.Verify(t.Context(), tokens[i])
				if err != nil || token.Subject != fmt.Sprint(i) {
					t.Errorf("token %d: %v, %v", i, token, err)
				}
				if code, _ := status(guard, withToken(revoked[i%len(revoked)])); code != http.StatusUnauthorized {
					t.Errorf("a revoked token: %d", code)
				}
				if n%20 == 0 {
					clock.Advance(time.Second)
				}
			}
		})
	}
	wg.Wait()
}
