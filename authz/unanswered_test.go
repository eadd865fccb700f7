package authz_test

import (
	"net/http"
	"testing"
	"time"

	"gatehouse.example/storage"
)

// TestUnansweredCode: a code that was used up while its client got 503 gives invalid_grant,
// and its family is not revoked: no client has tokens of it. A code whose tokens were sent
// ends its family at the second redemption.
func TestUnansweredCode(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{}), testClients()["native"]
	b := h.newBrowser()
	code := b.code(asks(c))
	mustRefuse(t, h.unanswered("grant", func() reply { return h.toToken(c, redemption(c, code)) }), http.StatusServiceUnavailable, "temporarily_unavailable")
	for range 2 {
		mustRefuse(t, h.toToken(c, redemption(c, code)), http.StatusBadRequest, "invalid_grant")
	}
	id, _ := storage.CodeGrant(code)
	if g, err := h.cfg.Store.Grant(t.Context(), id); err != nil || g.State != storage.GrantActive {
		t.Errorf("the family of a code whose client got 503 is %s, %v", g.State, err)
	}

	held := b.tokens(c, asks(c))
	mustRefuse(t, h.toToken(c, redemption(c, held.code)), http.StatusBadRequest, "invalid_grant")
	if h.active(held.access) {
		t.Error("a replayed code did not end its family")
	}
}

// TestRepeatIsConfirmed: where a failover is possible, the same successor is sent again only
// when the rotation is on record. A lost rotation is repeated.
func TestRepeatIsConfirmed(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{}), testClients()["native"]
	h.faults.SetLineage("one")
	held := h.tokens(c)
	g := h.grantOfToken(held.refresh)
	before := h.item(g.ID)
	second := h.toToken(c, refreshing(c, held.refresh)).member(t, "refresh_token")
	mustRefuse(t, h.unanswered("grant", func() reply { return h.toToken(c, refreshing(c, held.refresh)) }), http.StatusServiceUnavailable, "temporarily_unavailable")
	if again := h.toToken(c, refreshing(c, held.refresh)); again.member(t, "refresh_token") != second {
		t.Errorf("another successor: %s", again)
	}
	h.clock.advance(time.Second)
	h.meter.once(&h.meter.before, "put", "grant", func() { h.takeOver("two", g.ID, before) })
	if again := h.toToken(c, refreshing(c, held.refresh)); again.member(t, "refresh_token") != second {
		t.Errorf("after a takeover that lost the rotation: %s", again)
	}
	h.meter.before.Store(nil)
	if h.grantOfToken(second).Generation != 1 {
		t.Error("the rotation was not made again")
	}
}
