package authz_test

import (
	"testing"
	"time"

	"gatehouse.example/authz"
)

// TestRoundTripsOfPeople: rules about people cost a process that has seen the grant no round trip,
// however long ago it looked at the groups.
func TestRoundTripsOfPeople(t *testing.T) {
	t.Parallel()
	h, c := newGuarded(t, func(c *authz.Config) { c.Resources[0].Claims = []string{"groups"} }), testClients()["native"]
	b := h.newBrowser()
	held := b.tokens(c, asks(c))
	code := b.code(asks(c))
	count := func(what string, most int64, do func() reply) reply {
		t.Helper()
		before := h.roundTrips.Load()
		r := do()
		if n := h.roundTrips.Load() - before; n > most || r.status != 200 {
			t.Errorf("%s: %d round trips, want at most %d: %s", what, n, most, r)
		}
		return r
	}
	refresh := func() reply {
		r := h.toToken(c, refreshing(c, held.refresh))
		held.refresh = r.member(t, "refresh_token")
		return r
	}
	introspect := func() reply { return h.introspect(held.access) }
	later := func(pause time.Duration) {
		h.clock.advance(pause)
		h.toToken(c, redemption(c, "hello")) // what has nothing to do with people is cached
	}
	for _, pause := range []time.Duration{0, time.Second, time.Minute} {
		later(pause)
		count("refresh", 2, refresh)
		later(pause)
		h.get("/.well-known/oauth-authorization-server") // without Run a request looks for resources
		count("introspection", 1, introspect)
		if pause == 0 {
			count("code exchange", 2, func() reply { return h.toToken(c, redemption(c, code)) })
		}
	}
	h.restart()
	count("introspection at another process", 3, introspect)
	count("introspection there again", 1, introspect)
}
