package authz_test

import (
	"testing"
	"time"

	"gatehouse.example/authz"
)

// refreshesInAnHour counts the refreshes of a client that calls its server each minute for an
// hour and refreshes when its token ends within margin, as real clients do.
func refreshesInAnHour(t *testing.T, life, margin time.Duration) (count int) {
	t.Helper()
	h := newHarness(t, setup{config: func(c *authz.Config) { c.AccessTokenTTL = life }})
	native := testClients()["native"]
	held := h.tokens(native)
	ends := h.clock.Now().Add(expiresIn(t, h, held.access))
	for range 60 {
		h.clock.advance(time.Minute)
		if ends.Sub(h.clock.Now()) <= margin {
			count++
			answer := h.refreshed(native, held.refresh)
			held.access, held.refresh = answer.member(t, "access_token"), answer.member(t, "refresh_token")
			seconds, _ := answer.json(t)["expires_in"].(float64)
			ends = h.clock.Now().Add(time.Duration(seconds) * time.Second)
		}
		if !h.active(held.access) {
			t.Fatal("the client calls with a token that does not count")
		}
	}
	return count
}

// expiresIn returns the remaining lifetime of a token.
func expiresIn(t *testing.T, h *harness, token string) time.Duration {
	t.Helper()
	exp, _ := h.introspect(token).json(t)["exp"].(float64)
	return time.Unix(int64(exp), 0).Sub(h.clock.Now())
}

// Two widely used clients refresh five minutes before a token ends. With the default lifetime
// they do so when half of it is over; with five or six minutes, at every call or every other
// call.
func TestAccessTokenLifeOutlastsEarlyRefreshes(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		life, margin time.Duration
		want         int
	}{
		"by default":                 {0, 5 * time.Minute, 12},
		"by default, without margin": {0, time.Minute, 6},
		"five minutes":               {5 * time.Minute, 5 * time.Minute, 60},
		"six minutes":                {6 * time.Minute, 5 * time.Minute, 60},
		"fifteen minutes":            {15 * time.Minute, 5 * time.Minute, 6},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := refreshesInAnHour(t, tt.life, tt.margin); got != tt.want {
				t.Errorf("%d refreshes in an hour with a call each minute, want %d", got, tt.want)
			}
		})
	}
}

// One of them sends the same refresh token twice at once: each pair costs one rotation, and
// both get the same successor.
func TestAccessTokenLifeAndTwinRefreshes(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	native := testClients()["native"]
	held := h.tokens(native)
	for range 3 {
		h.clock.advance(5 * time.Minute)
		first, second := h.refreshed(native, held.refresh), h.refreshed(native, held.refresh)
		if first.member(t, "refresh_token") != second.member(t, "refresh_token") || first.member(t, "refresh_token") == held.refresh {
			t.Fatalf("twins differ: %s and %s", first, second)
		}
		held.refresh = second.member(t, "refresh_token")
		if !h.active(first.member(t, "access_token")) || !h.active(second.member(t, "access_token")) {
			t.Error("a token of the pair does not count")
		}
	}
}
