package authz_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"gatehouse.example/authz/admin"
	"gatehouse.example/storage"
)

// together calls f crowd times at once and returns the replies.
func together(f func(i int) reply) []reply {
	replies := make([]reply, crowd)
	var start, done sync.WaitGroup
	start.Add(1)
	for i := range replies {
		done.Go(func() {
			start.Wait()
			replies[i] = f(i)
		})
	}
	start.Done()
	done.Wait()
	return replies
}

// oneWinner checks that exactly one reply is a success and the others are invalid_grant, and
// returns the success.
func oneWinner(t *testing.T, replies []reply) reply {
	t.Helper()
	var won []reply
	for _, r := range replies {
		if r.status == http.StatusOK {
			won = append(won, r)
			continue
		}
		mustRefuse(t, r, http.StatusBadRequest, "invalid_grant")
	}
	if len(won) != 1 {
		t.Fatalf("%d of %d won, want exactly one", len(won), len(replies))
	}
	return won[0]
}

// TestRedeemTogether: of concurrent requests that read the code before its use one wins the
// swap, and the others revoke nothing: none of them knew that the code was used.
func TestRedeemTogether(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{}), testClients()["native"]
	code := h.newBrowser().code(asks(c))
	h.meter.holdGrantReads(crowd)
	won := oneWinner(t, together(func(int) reply { return h.toToken(c, redemption(c, code)) }))
	h.meter.after.Store(nil)
	if !h.active(won.member(t, "access_token")) {
		t.Error("the losers of a race revoked the winner's tokens")
	}
	// A request that reads the code after its use is a replay, however soon.
	mustRefuse(t, h.toToken(c, redemption(c, code)), http.StatusBadRequest, "invalid_grant")
	mustBeDead(t, h, c, won)
}

// TestRedeemInTurmoil runs the same race without synchronisation: a late request is a replay.
func TestRedeemInTurmoil(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{}), testClients()["native"]
	for range 4 {
		code := h.newBrowser().code(asks(c))
		won := oneWinner(t, together(func(int) reply { return h.toToken(c, redemption(c, code)) }))
		mustRefuse(t, h.toToken(c, redemption(c, code)), http.StatusBadRequest, "invalid_grant")
		mustBeDead(t, h, c, won)
	}
}

// mustBeDead checks that none of the tokens of a response is valid any more.
func mustBeDead(t *testing.T, h *harness, c testClient, won reply) {
	t.Helper()
	if h.active(won.member(t, "access_token")) {
		t.Error("the access token is still active")
	}
	mustRefuse(t, h.toToken(c, refreshing(c, won.member(t, "refresh_token"))), http.StatusBadRequest, "invalid_grant")
}

// TestRedeemBurnsNothing: any number of wrong requests neither uses up a code nor changes a
// grant, and none of them writes.
func TestRedeemBurnsNothing(t *testing.T) {
	t.Parallel()
	h, c, other := newHarness(t, setup{}), testClients()["native"], testClients()["other"]
	code := h.newBrowser().code(asks(c))
	attack := func() {
		t.Helper()
		before := h.meter.writes.Load()
		for i := range 100 {
			wrong := strings.Repeat("a", 43+i%80)
			mustRefuse(t, h.toToken(c, replaced(redemption(c, code), "code_verifier", wrong)), http.StatusBadRequest, "invalid_grant")
			mustRefuse(t, h.toToken(other, redemption(other, code)), http.StatusBadRequest, "invalid_grant")
			mustRefuse(t, h.toToken(c, replaced(redemption(c, code), "redirect_uri", fmt.Sprintf("http://127.0.0.1:%d/callback", i+1))), http.StatusBadRequest, "invalid_grant")
		}
		if n := h.meter.writes.Load() - before; n != 0 {
			t.Errorf("300 wrong presentations wrote %d times", n)
		}
	}
	attack()
	answer := h.toToken(c, redemption(c, code))
	if answer.status != http.StatusOK {
		t.Fatalf("the code was burnt: %s", answer)
	}
	attack() // after the code was used
	if !h.active(answer.member(t, "access_token")) {
		t.Error("wrong requests revoked the grant")
	}
}

// TestRedeemAgainstDisable: a person who is disabled between the read and the swap of a
// redemption gets no tokens.
func TestRedeemAgainstDisable(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{}), testClients()["native"]
	code := h.newBrowser().code(asks(c))
	h.meter.once(&h.meter.before, "put", "grant", func() {
		if err := admin.DisableUser(t.Context(), h.store, personName); err != nil {
			t.Error(err)
		}
	})
	mustRefuse(t, h.toToken(c, redemption(c, code)), http.StatusBadRequest, "invalid_grant")
	mustRefuse(t, h.toToken(c, redemption(c, code)), http.StatusBadRequest, "invalid_grant")
}

// TestConsentAgainstDisable: if a person is disabled while their consent is being stored, no
// active grant remains and the client gets no code: neither when the grant is not listed yet,
// nor when it is listed and not stored yet.
func TestConsentAgainstDisable(t *testing.T) {
	t.Parallel()
	for name, moment := range map[string]struct{ op, kind string }{
		"not listed yet": {"index add", "user-grants"}, "not stored yet": {"put", "grant"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, c := newHarness(t, setup{}), testClients()["native"]
			h.meter.once(&h.meter.before, moment.op, moment.kind, func() {
				if err := admin.DisableUser(t.Context(), h.store, personName); err != nil {
					t.Error(err)
				}
			})
			var id string
			disable := h.meter.before.Load()
			step := func(op, key string) {
				if rest, ok := strings.CutPrefix(key, "gatehouse:grant:"); ok && op == "put" {
					id = rest
				}
				(*disable)(op, key)
			}
			h.meter.before.Store(&step)
			mustShow(t, h.newBrowser().walk(asks(c), "allow"), http.StatusBadRequest, "invalid_request")
			if grant, err := h.store.Grant(t.Context(), id); err != nil || grant.State != storage.GrantRevoked {
				t.Errorf("the grant is %q, %v; want revoked", grant.State, err)
			}
		})
	}
}

// TestConsentInOutage: when the store fails between the end of the transaction and the grant,
// the page says that the decision was not recorded, and there is no grant.
func TestConsentInOutage(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{}), testClients()["native"]
	b := h.newBrowser()
	b.code(asks(c))
	h.meter.once(&h.meter.before, "put", "grant", func() { h.faults.SetDown(true) })
	answer := b.walk(asks(c), "allow")
	mustShow(t, answer, http.StatusServiceUnavailable, "temporarily_unavailable")
	if answer.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	h.faults.SetDown(false)
	mustShow(t, b.submit("decision", "allow"), http.StatusBadRequest, "invalid_request")
	if b.code(asks(c)) == "" {
		t.Error("starting again does not work")
	}
}

// TestRedeemLostReply: the store did the swap and its reply got lost. That is one redemption
// and not a replay.
func TestRedeemLostReply(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{}), testClients()["native"]
	for name, lose := range map[string]func(int){"reply": h.faults.LoseReplies, "request": h.faults.LoseRequests} {
		code := h.newBrowser().code(asks(c))
		lose(2)
		answer := h.toToken(c, redemption(c, code))
		if answer.status != http.StatusOK {
			t.Fatalf("lost %s: %s", name, answer)
		}
		if !h.active(answer.member(t, "access_token")) {
			t.Errorf("lost %s: the retry was mistaken for a replay", name)
		}
		lose(1)
		if next := h.toToken(c, refreshing(c, answer.member(t, "refresh_token"))); next.status != http.StatusOK {
			t.Errorf("lost %s: refresh: %s", name, next)
		}
	}
}
