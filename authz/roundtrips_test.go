package authz_test

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestRoundTrips checks the round trips to the store per request when the client is cached.
// docs/design.md promises these numbers.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{}), testClients()["native"]
	b := h.newBrowser()
	held := b.tokens(c, asks(c)) // the client is cached, the script loaded
	code := b.code(asks(c))
	next := ""
	register := func() reply {
		r := h.newRequest(http.MethodPost, h.issuer+"/register", nil)
		r.Body = http.NoBody
		body := strings.NewReader(`{"redirect_uris":["https://client.example.org/callback"]}`)
		r, err := http.NewRequest(http.MethodPost, r.URL.String(), body)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		return h.send(r)
	}
	for _, step := range []struct {
		name   string
		most   int64
		status int
		do     func() reply
	}{
		{"metadata", 0, 200, func() reply { return h.send(h.newRequest("GET", "/.well-known/oauth-authorization-server", nil)) }},
		{"keys", 0, 200, func() reply { return h.get("/jwks.json") }},
		{"health", 0, 200, func() reply { return h.send(h.newRequest("GET", "/healthz", nil)) }},
		{"code exchange", 2, 200, func() reply { return h.toToken(c, redemption(c, code)) }},
		{"refresh", 2, 200, func() reply {
			r := h.toToken(c, refreshing(c, held.refresh))
			next = r.member(t, "refresh_token")
			return r
		}},
		{"the same refresh again", 1, 200, func() reply { return h.toToken(c, refreshing(c, held.refresh)) }},
		{"introspection", 1, 200, func() reply { return h.introspect(held.access) }},
		{"introspection of a refresh token", 0, 200, func() reply { return h.introspect(next) }},
		{"introspection of garbage", 0, 200, func() reply { return h.introspect("hello") }},
		{"registration", 2, 201, register},
		{"a wrong verifier", 1, 400, func() reply { return h.toToken(c, replaced(redemption(c, code), "code_verifier", challenge)) }},
		{"a code that cannot be one", 0, 400, func() reply { return h.toToken(c, redemption(c, "hello")) }},
		{"a malformed request", 0, 400, func() reply { return h.post("/token") }},
		{"an unknown path", 0, 404, func() reply { return h.get("/nothing") }},
		{"revocation", 3, 200, func() reply { return h.post("/revoke", "token", next, "client_id", c.ID) }},
	} {
		before := h.roundTrips.Load()
		answer := step.do()
		if n := h.roundTrips.Load() - before; n > step.most {
			t.Errorf("%s: %d round trips, want at most %d", step.name, n, step.most)
		}
		if answer.status != step.status {
			t.Errorf("%s: %s", step.name, answer)
		}
	}
}

// TestRoundTripsOfAClientNotCached: a client that was not here for a while, as most are that refresh, is
// read together with its grant. Who is refused costs one round trip, and changes nothing.
func TestRoundTripsOfAClientNotCached(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"native", "basic", "post"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, c, other := newHarness(t, setup{}), testClients()[name], testClients()["other"]
			web := testClients()["web"]
			b := h.newBrowser()
			held := b.tokens(c, asks(c))
			code := b.code(asks(c))
			next := ""
			for _, step := range []struct {
				name          string
				trips, status int
				do            func() reply
			}{
				{"another client", 1, 400, func() reply { return h.toToken(other, refreshing(other, held.refresh)) }},
				{"another client with the code", 1, 400, func() reply { return h.toToken(other, redemption(other, code)) }},
				{"an unknown client", 1, 401, func() reply {
					return h.post("/token", "grant_type", "refresh_token", "client_id", "nobody", "refresh_token", held.refresh)
				}},
				{"a wrong secret", 1, 401, func() reply {
					return h.post("/token", "grant_type", "refresh_token", "client_id", c.ID, "client_secret", "wrong", "refresh_token", held.refresh)
				}},
				{"a refresh token as a code", 1, 400, func() reply { return h.toToken(c, redemption(c, held.refresh)) }},
				{"code exchange", 2, 200, func() reply { return h.toToken(c, redemption(c, code)) }},
				{"refresh", 2, 200, func() reply {
					r := h.toToken(c, refreshing(c, held.refresh))
					next = r.member(t, "refresh_token")
					return r
				}},
				{"the same refresh again", 1, 200, func() reply { return h.toToken(c, refreshing(c, held.refresh)) }},
				{"the next one, with a code beside it", 2, 200, func() reply {
					return h.toToken(c, replaced(refreshing(c, next), "code", code))
				}},
			} {
				h.clock.advance(6 * time.Second)
				h.toToken(web, redemption(web, "no code")) // the server reads its resources every few seconds
				before := h.roundTrips.Load()
				answer := step.do()
				if n := int(h.roundTrips.Load() - before); n != step.trips || answer.status != step.status {
					t.Errorf("%s: %d round trips, %s; want %d, %d", step.name, n, answer, step.trips, step.status)
				}
			}
		})
	}
}
