package authz_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"gatehouse.example/storage"
)

// TestRefreshTogether: concurrent refreshes of one token all succeed with the same successor,
// which works.
func TestRefreshTogether(t *testing.T) {
	t.Parallel()
	for name, held := range map[string]bool{"all have read the same record": true, "as it comes": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, c := newHarness(t, setup{}), testClients()["native"]
			token := h.tokens(c).refresh
			for range 3 {
				if held {
					h.meter.holdGrantReads(crowd)
				}
				replies := together(func(int) reply { return h.toToken(c, refreshing(c, token)) })
				h.meter.after.Store(nil)
				successor := sameSuccessor(t, replies)
				if successor == token {
					t.Fatal("the token was not rotated")
				}
				token = successor
			}
		})
	}
}

// sameSuccessor returns the one refresh token of all replies and checks that all access
// tokens differ.
func sameSuccessor(t *testing.T, replies []reply) string {
	t.Helper()
	refresh, access := map[string]bool{}, map[string]bool{}
	for _, r := range replies {
		if r.status != http.StatusOK {
			t.Fatalf("one of %d concurrent refreshes failed: %s", len(replies), r)
		}
		refresh[r.member(t, "refresh_token")] = true
		access[r.member(t, "access_token")] = true
	}
	if len(refresh) != 1 || len(access) != len(replies) {
		t.Fatalf("%d refreshes gave %d refresh tokens and %d access tokens", len(replies), len(refresh), len(access))
	}
	return replies[0].member(t, "refresh_token")
}

// TestRefreshForged: a token that names an active grant and was not made by this server has
// no effect, whatever its generation: it neither refreshes nor revokes.
func TestRefreshForged(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{}), testClients()["native"]
	held := h.tokens(c)
	first := held.refresh
	second := h.toToken(c, refreshing(c, first)).member(t, "refresh_token")
	third := h.toToken(c, refreshing(c, second)).member(t, "refresh_token")
	const prefix = "gate_rt_"
	raw := func(token string) []byte {
		t.Helper()
		b, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(token, prefix))
		if err != nil || len(b) != 16+4+32 {
			t.Fatalf("%d bytes, %v", len(b), err)
		}
		return b
	}
	forged := map[string][]byte{}
	for name, token := range map[string]string{"stale": first, "previous": second, "current": third} {
		for at := 16; at < 52; at++ {
			b := raw(token)
			b[at] ^= 1
			forged[fmt.Sprintf("%s, byte %d", name, at)] = b
		}
		forged[name+", without a MAC"] = append(raw(token)[:20], make([]byte, 32)...)
	}
	forged["the MAC of another generation"] = append(raw(third)[:20:20], raw(first)[20:]...)
	forged["the MAC of another grant"] = append(raw(third)[:20:20], raw(h.tokens(c).refresh)[20:]...)
	before := h.meter.writes.Load()
	for name, b := range forged {
		token := prefix + base64.RawURLEncoding.EncodeToString(b)
		if r := h.toToken(c, refreshing(c, token)); r.status != http.StatusBadRequest || r.member(t, "error") != "invalid_grant" {
			t.Errorf("%s: %s", name, r)
		}
		if r := h.post("/revoke", "token", token, "client_id", c.ID); r.status != http.StatusOK {
			t.Errorf("%s, revoked: %s", name, r)
		}
	}
	if n := h.meter.writes.Load() - before; n != 0 {
		t.Errorf("forged tokens wrote %d times", n)
	}
	if !h.active(held.access) {
		t.Error("a forged token ended the family")
	}
	if r := h.toToken(c, refreshing(c, third)); r.status != http.StatusOK {
		t.Errorf("the genuine one: %s", r)
	}
}

// TestRefreshRepeatWritesNothing: the answer to the previous token costs no write, so it
// extends nothing.
func TestRefreshRepeatWritesNothing(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	c := testClients()["native"]
	first := h.tokens(c).refresh
	second := h.toToken(c, refreshing(c, first)).member(t, "refresh_token")
	before := h.meter.writes.Load()
	for range 10 {
		h.clock.advance(2 * time.Second)
		if again := h.toToken(c, refreshing(c, first)); again.member(t, "refresh_token") != second {
			t.Fatalf("another successor: %s", again)
		}
	}
	if n := h.meter.writes.Load() - before; n != 0 {
		t.Errorf("ten repetitions wrote %d times", n)
	}
	h.clock.advance(10 * time.Second) // 30 seconds after the rotation, not after the last repetition
	mustRefuse(t, h.toToken(c, refreshing(c, first)), http.StatusBadRequest, "invalid_grant")
	mustRefuse(t, h.toToken(c, refreshing(c, second)), http.StatusBadRequest, "invalid_grant")
}

// TestRefreshAgainstRevoke: whichever of the two swaps first, the grant is revoked in the end
// and none of its tokens is valid.
func TestRefreshAgainstRevoke(t *testing.T) {
	t.Parallel()
	c := testClients()["native"]
	revoke := func(h *harness, token string) reply { return h.post("/revoke", "token", token, "client_id", c.ID) }
	t.Run("revoked between read and swap of the refresh", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t, setup{})
		held := h.tokens(c)
		h.meter.once(&h.meter.before, "put", "grant", func() {
			if r := revoke(h, held.refresh); r.status != http.StatusOK {
				t.Errorf("revoke: %s", r)
			}
		})
		mustRefuse(t, h.toToken(c, refreshing(c, held.refresh)), http.StatusBadRequest, "invalid_grant")
		if h.active(held.access) {
			t.Error("the refresh brought the grant back")
		}
	})
	t.Run("refreshed between read and swap of the revocation", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t, setup{})
		held := h.tokens(c)
		var next reply
		h.meter.once(&h.meter.before, "put", "grant", func() { next = h.toToken(c, refreshing(c, held.refresh)) })
		if r := revoke(h, held.refresh); r.status != http.StatusOK {
			t.Fatalf("revoke: %s", r)
		}
		if next.status != http.StatusOK {
			t.Fatalf("refresh: %s", next)
		}
		mustBeDead(t, h, c, next)
	})
	t.Run("as it comes", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t, setup{})
		held := h.tokens(c)
		replies := together(func(i int) reply {
			if i == crowd/2 {
				return revoke(h, held.refresh)
			}
			return h.toToken(c, refreshing(c, held.refresh))
		})
		for i, r := range replies {
			switch {
			case r.status == http.StatusOK && i != crowd/2:
				mustBeDead(t, h, c, r)
			case r.status != http.StatusOK:
				mustRefuse(t, r, http.StatusBadRequest, "invalid_grant")
			}
		}
	})
}

// TestRefreshAfterUncertainty: the store did the rotation, no reply came within the write
// time, and the client gets 503. Its retry gets the successor.
func TestRefreshAfterUncertainty(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{}), testClients()["native"]
	held := h.tokens(c)
	mustRefuse(t, h.unanswered("grant", func() reply { return h.toToken(c, refreshing(c, held.refresh)) }), http.StatusServiceUnavailable, "temporarily_unavailable")
	again := h.toToken(c, refreshing(c, held.refresh))
	if again.status != http.StatusOK {
		t.Fatalf("the retry: %s", again)
	}
	if next := h.toToken(c, refreshing(c, again.member(t, "refresh_token"))); next.status != http.StatusOK {
		t.Errorf("the successor: %s", next)
	}
}

// TestRevokeUnconfirmed: a revocation that may not have happened is never answered with 200,
// whatever caused it.
func TestRevokeUnconfirmed(t *testing.T) {
	t.Parallel()
	c := testClients()["native"]
	h := newHarness(t, setup{})
	asked, replayed, stale := h.tokens(c), h.tokens(c), h.tokens(c)
	second := h.toToken(c, refreshing(c, stale.refresh)).member(t, "refresh_token")
	h.toToken(c, refreshing(c, second))
	h.meter.once(&h.meter.after, "get", "grant", func() { h.faults.SetDown(true) })
	mustRefuse(t, h.post("/revoke", "token", asked.refresh, "client_id", c.ID), http.StatusServiceUnavailable, "temporarily_unavailable")
	h.faults.SetDown(false)
	h.meter.once(&h.meter.after, "get", "grant", func() { h.faults.SetDown(true) })
	mustRefuse(t, h.toToken(c, redemption(c, replayed.code)), http.StatusServiceUnavailable, "temporarily_unavailable")
	h.faults.SetDown(false)
	h.meter.once(&h.meter.after, "get", "grant", func() { h.faults.SetDown(true) })
	mustRefuse(t, h.toToken(c, refreshing(c, stale.refresh)), http.StatusServiceUnavailable, "temporarily_unavailable")
	h.faults.SetDown(false)
	h.meter.after.Store(nil)
	for name, token := range map[string]string{"asked": asked.access, "replayed": replayed.access, "stale": stale.access} {
		if !h.active(token) {
			t.Errorf("%s: 503 and revoked all the same", name)
		}
	}
	mustRefuse(t, h.toToken(c, redemption(c, replayed.code)), http.StatusBadRequest, "invalid_grant")
	mustRefuse(t, h.toToken(c, refreshing(c, stale.refresh)), http.StatusBadRequest, "invalid_grant")
	for name, token := range map[string]string{"replayed": replayed.access, "stale": stale.access} {
		if h.active(token) {
			t.Errorf("%s: the second time it must be revoked", name)
		}
	}
}

// TestRefreshFromTheFuture: a genuine token of a generation that is not on record means that
// the store lost a rotation that it had acknowledged. The family ends.
func TestRefreshFromTheFuture(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	c := testClients()["native"]
	held := h.tokens(c)
	parsed, ok := storage.ParseRefreshToken(held.refresh)
	if !ok {
		t.Fatal("the refresh token cannot be parsed")
	}
	g, err := h.store.Grant(t.Context(), parsed.GrantID)
	if err != nil {
		t.Fatal(err)
	}
	future, err := h.store.RefreshTokenOf(g, parsed.Generation+1)
	if err != nil {
		t.Fatal(err)
	}
	mustRefuse(t, h.toToken(c, refreshing(c, future)), http.StatusBadRequest, "invalid_grant")
	mustRefuse(t, h.toToken(c, refreshing(c, held.refresh)), http.StatusBadRequest, "invalid_grant")
	if h.active(held.access) {
		t.Error("the family is alive")
	}
}
