package authz_test

import (
	"net/http"
	"strings"
	"testing"

	"gatehouse.example/storage"
)

// grantOfToken returns the record of the grant of a refresh token.
func (h *harness) grantOfToken(token string) storage.Grant {
	h.t.Helper()
	parsed, ok := storage.ParseRefreshToken(token)
	if !ok {
		h.t.Fatalf("%q is no refresh token", token)
	}
	g, err := h.store.Grant(h.t.Context(), parsed.GrantID)
	if err != nil {
		h.t.Fatal(err)
	}
	return g
}

// item returns the record of a grant, read directly from the backend.
func (h *harness) item(id string) storage.Item {
	h.t.Helper()
	item, err := h.meter.Backend.Get(h.t.Context(), "gatehouse:grant:"+id)
	if err != nil {
		h.t.Fatal(err)
	}
	return item
}

// takeOver simulates a failover to a copy of the database with an older version of a record.
func (h *harness) takeOver(to storage.Lineage, id string, older storage.Item) {
	h.t.Helper()
	change := storage.Put{Key: "gatehouse:grant:" + id, Data: older.Data, If: storage.Always, Operation: older.Version}
	if _, err := h.meter.Backend.Put(h.t.Context(), change); err != nil {
		h.t.Fatal(err)
	}
	h.faults.SetLineage(to)
}

// refreshed refreshes and returns the answer, which must be a success.
func (h *harness) refreshed(c testClient, token string) reply {
	h.t.Helper()
	answer := h.toToken(c, refreshing(c, token))
	if answer.status != http.StatusOK {
		h.t.Fatalf("refresh: %s", answer)
	}
	return answer
}

const (
	restored  = "rotations of a refresh token were lost"
	alarm     = "the store lost an acknowledged rotation"
	forgotten = "a refresh token from a forgotten write was used"
)

// logged counts the lines of the log with that text about a grant.
func (h *harness) logged(what, id string) (n int) {
	for line := range strings.Lines(h.log.String()) {
		if strings.Contains(line, what) && strings.Contains(line, id) {
			n++
		}
	}
	return n
}

// TestCodeStaysWithItsLineage: a code can be redeemed only on the lineage on which it was
// issued: another one may have lost the redemption. The answer is invalid_grant; nothing is
// written and no grant is revoked.
func TestCodeStaysWithItsLineage(t *testing.T) {
	t.Parallel()
	c := testClients()["native"]
	h := newHarness(t, setup{})
	b := h.newBrowser()
	for name, takeOver := range map[string]func(f func()){
		"before the request":            func(f func()) { f() },
		"between the read and the swap": func(f func()) { h.meter.once(&h.meter.before, "put", "grant", f) },
	} {
		h.faults.SetLineage("one")
		code := b.code(asks(c))
		id, _ := storage.CodeGrant(code)
		before := h.item(id)
		takeOver(func() { h.faults.SetLineage("two") })
		for range 3 {
			mustRefuse(t, h.toToken(c, redemption(c, code)), http.StatusBadRequest, "invalid_grant")
		}
		if after := h.item(id); after.Version != before.Version || string(after.Data) != string(before.Data) {
			t.Errorf("%s: something was written", name)
		}
		if h.logged("revoked", id) != 0 {
			t.Errorf("%s: the family was revoked:\n%s", name, h.log)
		}
		h.meter.before.Store(nil)
		h.faults.SetLineage("one") // shows that the code was not used up
		if answer := h.toToken(c, redemption(c, code)); answer.status != http.StatusOK {
			t.Errorf("%s: where the code was issued: %s", name, answer)
		}
	}
}

// TestCodeWithoutLineage: without failover codes can be redeemed, even if a replica joins
// meanwhile. A redeemed code is a replay on every lineage.
func TestCodeWithoutLineage(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{}), testClients()["native"]
	b := h.newBrowser()
	code := b.code(asks(c))
	h.faults.SetLineage("two")
	mustRefuse(t, h.toToken(c, replaced(redemption(c, code), "code_verifier", challenge)), http.StatusBadRequest, "invalid_grant")
	first := h.toToken(c, redemption(c, code))
	if first.status != http.StatusOK {
		t.Fatalf("a code from before there was a replica: %s", first)
	}
	second := b.tokens(c, asks(c))
	h.faults.SetLineage("three")
	if !h.active(first.member(t, "access_token")) || !h.active(second.access) {
		t.Error("a takeover ended tokens")
	}
	mustRefuse(t, h.toToken(c, redemption(c, second.code)), http.StatusBadRequest, "invalid_grant")
	if h.active(second.access) {
		t.Error("a replay on another copy does not end the family")
	}
	mustRefuse(t, h.toToken(c, refreshing(c, second.refresh)), http.StatusBadRequest, "invalid_grant")
}

// TestRefreshAcrossTakeover: refreshing continues on every lineage, with the same rules.
func TestRefreshAcrossTakeover(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{}), testClients()["native"]
	h.faults.SetLineage("one")
	first := h.tokens(c).refresh
	h.faults.SetLineage("two")
	second := h.refreshed(c, first).member(t, "refresh_token")
	if again := h.refreshed(c, first).member(t, "refresh_token"); again != second {
		t.Errorf("the previous token gets %q, the first time it got %q", again, second)
	}
	h.meter.once(&h.meter.before, "put", "grant", func() { h.faults.SetLineage("three") })
	third := h.refreshed(c, second).member(t, "refresh_token")
	if g := h.grantOfToken(third); g.Generation != 2 || g.Lineage != "three" {
		t.Errorf("the grant has generation %d, lineage %q; want 2, three", g.Generation, g.Lineage)
	}
	h.faults.SetLineage("four")
	mustRefuse(t, h.toToken(c, refreshing(c, first)), http.StatusBadRequest, "invalid_grant")
	mustRefuse(t, h.toToken(c, refreshing(c, third)), http.StatusBadRequest, "invalid_grant")
	if h.logged(alarm, "") != 0 || h.logged(restored, "") != 0 {
		t.Errorf("nothing was forgotten:\n%s", h.log)
	}
}

// TestRevokedOnEveryLineage: a revoked grant stays revoked after a failover, and a revocation
// that was lost between its two steps is repeated, not only reported.
func TestRevokedOnEveryLineage(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{}), testClients()["native"]
	revoke := func(token string) reply { return h.post("/revoke", "token", token, "client_id", c.ID) }
	dead := func(what string, held tokens) {
		t.Helper()
		if h.active(held.access) {
			t.Errorf("%s: the access token lives", what)
		}
		mustRefuse(t, h.toToken(c, refreshing(c, held.refresh)), http.StatusBadRequest, "invalid_grant")
		mustRefuse(t, h.toToken(c, redemption(c, held.code)), http.StatusBadRequest, "invalid_grant")
	}
	h.faults.SetLineage("one")
	b := h.newBrowser()
	held := b.tokens(c, asks(c))
	if r := revoke(held.refresh); r.status != http.StatusOK {
		t.Fatalf("revoke: %s", r)
	}
	before := h.item(h.grantOfToken(held.refresh).ID)
	for _, l := range []storage.Lineage{"two", "three", "one"} {
		h.faults.SetLineage(l)
		dead(string(l), held)
		writes := h.meter.writes.Load()
		if r := revoke(held.refresh); r.status != http.StatusOK || h.meter.writes.Load() != writes+1 {
			t.Errorf("a second revocation sent %d writes: %s", h.meter.writes.Load()-writes, r)
		}
	}
	mustRefuse(t, h.unanswered("grant", func() reply { return revoke(held.refresh) }), http.StatusServiceUnavailable, "temporarily_unavailable")
	if after := h.item(h.grantOfToken(held.refresh).ID); after.Version != before.Version || string(after.Data) != string(before.Data) {
		t.Error("a second revocation changed the record")
	}

	for _, steps := range []int{1, 2} { // the takeover comes with the first revocation, or with the second
		h.faults.SetLineage("one")
		held = b.tokens(c, asks(c))
		id := h.grantOfToken(held.refresh).ID
		older := h.item(id)
		if steps == 2 {
			if r := revoke(held.refresh); r.status != http.StatusOK {
				t.Fatalf("revoke: %s", r)
			}
		}
		h.meter.once(&h.meter.before, "put", "grant", func() { h.takeOver("two", id, older) })
		if r := revoke(held.refresh); r.status != http.StatusOK {
			t.Errorf("a revocation that meets a takeover: %s", r)
		}
		h.meter.before.Store(nil)
		dead("after a takeover that forgot", held)
	}
}
