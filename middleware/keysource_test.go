package middleware_test

import (
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// configured returns an issuer, a guard with one configured issuer, and the clock of both.
func configured(t *testing.T, change func(*middlewaretest.Issuer, *middleware.Issuer)) (*middlewaretest.Issuer, *middleware.Guard, *clock) {
	t.Helper()
	issuer, clock := middlewaretest.NewIssuer(t), newClock()
	one := middleware.Issuer{URL: issuer.URL()}
	change(issuer, &one)
	guard, err := middleware.New(middleware.Config{Resource: resource, Issuers: []middleware.Issuer{one}, Now: clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	return issuer, guard, clock
}

// mintAt returns a token that is issued now and expires in a year.
func mintAt(issuer *middlewaretest.Issuer, clock *clock) string {
	now := clock.Now()
	return issuer.Mint(claims{"aud": resource, "iat": now.Unix(), "exp": now.AddDate(1, 0, 0).Unix()})
}

// TestFixedKeys checks that fixed keys need no issuer, and never age or change.
func TestFixedKeys(t *testing.T) {
	key := jose.JSONWebKey{Key: middlewaretest.NewKey(t, jose.ES256), KeyID: "one", Algorithm: "ES256"}
	issuer, guard, clock := configured(t, func(issuer *middlewaretest.Issuer, one *middleware.Issuer) {
		set := keySetOf(t, key)
		one.Keys = middleware.FixedKeys(set)
		clear(set) // the guard has a copy
		issuer.SetKeys(key)
		issuer.SetDown(true)
	})
	wantVerdict(t, guard, mintAt(issuer, clock), nil)
	clock.Advance(20 * 365 * 24 * time.Hour)
	wantVerdict(t, guard, mintAt(issuer, clock), nil)
	issuer.Rotate(jose.ES256)
	wantVerdict(t, guard, mintAt(issuer, clock), middleware.ErrToken) // at once: there is nothing to wait for
	issuer.SetKeys(jose.JSONWebKey{Key: key.Key, Algorithm: "ES256"})
	wantVerdict(t, guard, mintAt(issuer, clock), nil)
	issuer.SetKeys(jose.JSONWebKey{Key: middlewaretest.NewKey(t, jose.ES256), Algorithm: "ES256"})
	wantVerdict(t, guard, mintAt(issuer, clock), middleware.ErrToken)
	wantFetches(t, issuer, 0)
}

// TestKeysAt checks that keys are fetched without metadata, and otherwise as those of other
// issuers: once, again for an unknown key, and with 503 while they cannot be fetched.
func TestKeysAt(t *testing.T) {
	issuer, guard, clock := configured(t, func(issuer *middlewaretest.Issuer, one *middleware.Issuer) {
		one.Keys = middleware.KeysAt(issuer.URL() + jwkPath)
		issuer.SetDocument(asPath, nil)
		issuer.SetDown(true)
	})
	wantVerdict(t, guard, mintAt(issuer, clock), middleware.ErrUnavailable)
	issuer.SetDown(false)
	clock.Advance(time.Minute)
	for range 3 {
		wantVerdict(t, guard, mintAt(issuer, clock), nil)
	}
	wantFetches(t, issuer, 2)
	issuer.Rotate(jose.ES256)
	clock.Advance(time.Minute)
	wantVerdict(t, guard, mintAt(issuer, clock), nil)
	wantFetches(t, issuer, 3)
}

// TestMaxStale checks that the bound of an issuer for the age of its keys replaces that of all.
func TestMaxStale(t *testing.T) {
	for stale, want := range map[time.Duration]error{0: nil, time.Hour: middleware.ErrUnavailable, -1: middleware.ErrUnavailable, 48 * time.Hour: nil} {
		issuer, guard, clock := configured(t, func(_ *middlewaretest.Issuer, one *middleware.Issuer) { one.MaxStale = stale })
		wantVerdict(t, guard, mintAt(issuer, clock), nil)
		issuer.SetDown(true)
		clock.Advance(2 * time.Hour)
		wantVerdict(t, guard, mintAt(issuer, clock), want)
	}
}

// TestLeewayOfAnIssuer checks that the leeway of an issuer counts for tokens, also for those in
// the cache.
func TestLeewayOfAnIssuer(t *testing.T) {
	for _, leeway := range []time.Duration{time.Second, 10 * time.Second, time.Minute} {
		issuer, guard, clock := configured(t, func(_ *middlewaretest.Issuer, one *middleware.Issuer) { one.Leeway = leeway })
		clock.Advance(clock.Now().Truncate(time.Second).Sub(clock.Now()))
		at := func(d time.Duration) int64 { return clock.Now().Add(d).Unix() }
		for _, claim := range []string{"nbf", "iat"} {
			wantVerdict(t, guard, issuer.Mint(claims{"aud": resource, claim: at(leeway)}), nil)
			wantVerdict(t, guard, issuer.Mint(claims{"aud": resource, claim: at(leeway + time.Second)}), middleware.ErrToken)
		}
		token := issuer.Mint(claims{"aud": resource, "exp": at(time.Second)})
		for range 2 { // the second time from the cache
			wantVerdict(t, guard, token, nil)
		}
		clock.Advance(leeway + time.Second)
		wantVerdict(t, guard, token, nil)
		clock.Advance(time.Second)
		wantVerdict(t, guard, token, middleware.ErrToken)
	}
}
