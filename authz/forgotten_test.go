package authz_test

import (
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"gatehouse.example/authz/admin"
	"gatehouse.example/storage"
)

// loseRotations refreshes a client's token several times, and simulates a failover that lost
// all but one of the rotations. It returns every refresh token of the client: the second one
// is that on record, the last one is that which the client holds.
func (h *harness) loseRotations(b *browser, c testClient, missing int) (chain []string, access string) {
	h.t.Helper()
	h.faults.SetLineage("one")
	chain = append(chain, b.tokens(c, asks(c)).refresh)
	answer := h.refreshed(c, chain[0])
	chain = append(chain, answer.member(h.t, "refresh_token"))
	older := h.item(h.grantOfToken(chain[0]).ID)
	for range missing {
		answer = h.refreshed(c, chain[len(chain)-1])
		chain = append(chain, answer.member(h.t, "refresh_token"))
	}
	h.takeOver("two", h.grantOfToken(chain[0]).ID, older)
	return chain, answer.member(h.t, "access_token")
}

// TestForgottenRotations: after a failover that lost up to eight rotations the client
// continues, and all rules apply as before.
func TestForgottenRotations(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{}), testClients()["native"]
	b := h.newBrowser()
	for missing := 1; missing <= 8; missing++ {
		chain, access := h.loseRotations(b, c, missing)
		id, newest := h.grantOfToken(chain[0]).ID, chain[len(chain)-1]
		answer := h.refreshed(c, newest)
		next := answer.member(t, "refresh_token")
		if g := h.grantOfToken(next); int(g.Generation) != missing+2 || g.Lineage != "two" || !h.active(access) || !h.active(answer.member(t, "access_token")) {
			t.Errorf("%d missing: the grant has generation %d, lineage %q", missing, g.Generation, g.Lineage)
		}
		if h.logged(restored, id) != 1 || h.logged(alarm, id) != 0 || h.logged("level=ERROR", id) != 0 {
			t.Errorf("%d missing: the log does not say once what happened:\n%s", missing, h.log)
		}
		if again := h.refreshed(c, newest).member(t, "refresh_token"); again != next {
			t.Errorf("%d missing: the same token again gets %q; want %q", missing, again, next)
		}
		last := h.refreshed(c, next).member(t, "refresh_token")
		h.clock.advance(31 * time.Second)
		for _, token := range []string{next, last} {
			mustRefuse(t, h.toToken(c, refreshing(c, token)), http.StatusBadRequest, "invalid_grant")
		}
		if h.active(access) || h.logged("an old refresh token was used again", id) != 1 {
			t.Errorf("%d missing: reuse after the window does not end the family", missing)
		}
	}
}

// TestForgottenRotationsTogether: concurrent requests with the same lost token get the same
// successor, which works.
func TestForgottenRotationsTogether(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{}), testClients()["native"]
	b := h.newBrowser()
	for _, held := range []bool{true, false} {
		chain, _ := h.loseRotations(b, c, 3)
		if held {
			h.meter.holdGrantReads(crowd)
		}
		replies := together(func(int) reply { return h.toToken(c, refreshing(c, chain[4])) })
		h.meter.after.Store(nil)
		next := sameSuccessor(t, replies)
		if g := h.grantOfToken(next); g.Generation != 5 || g.State != storage.GrantActive {
			t.Errorf("the grant is %s, generation %d; want active, 5", g.State, g.Generation)
		}
		h.refreshed(c, next)
	}
}

// TestForgottenStepwise: lost tokens are presented again in the order of their issue, and the
// token on record is not the newest any more.
func TestForgottenStepwise(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{}), testClients()["native"]
	b := h.newBrowser()
	chain, _ := h.loseRotations(b, c, 3)
	for i := 2; i < 5; i++ { // a repeated request gets the same answer
		if got := h.refreshed(c, chain[i]).member(t, "refresh_token"); i < 4 && got != chain[i+1] {
			t.Errorf("token %d gets %q; want %q", i, got, chain[i+1])
		}
	}
	// In reverse order the token on record is an old one, and the family ends.
	chain, access := h.loseRotations(b, c, 3)
	h.refreshed(c, chain[4])
	mustRefuse(t, h.toToken(c, refreshing(c, chain[1])), http.StatusBadRequest, "invalid_grant")
	if h.active(access) {
		t.Error("an old token did not end the family")
	}
	// Who comes with the token on record first makes the new lineage know the grant, and
	// what was forgotten before is not made good on it any more.
	chain, access = h.loseRotations(b, c, 3)
	if got := h.refreshed(c, chain[1]).member(t, "refresh_token"); got != chain[2] {
		t.Errorf("the token on record gets %q; want %q", got, chain[2])
	}
	mustRefuse(t, h.toToken(c, refreshing(c, chain[4])), http.StatusBadRequest, "invalid_grant")
	if h.active(access) || h.logged(alarm, h.grantOfToken(chain[0]).ID) != 1 {
		t.Error("a token that the lineage cannot have forgotten did not end the family")
	}
}

// TestForgottenAndRefused: a grant is not restored if a failover does not explain the loss,
// or if the person may not sign in any more. The family ends, and the log has an error.
func TestForgottenAndRefused(t *testing.T) {
	t.Parallel()
	c := testClients()["native"]
	again := func(h *harness, older storage.Item, id string) { h.takeOver("two", id, older) } // with the revocation lost
	for name, test := range map[string]struct {
		missing int
		spoil   func(t *testing.T, h *harness, id string)
	}{
		"nine are missing": {9, func(*testing.T, *harness, string) {}},
		"the same lineage": {1, func(_ *testing.T, h *harness, _ string) { h.faults.SetLineage("one") }},
		"no lineage on record": {1, func(t *testing.T, h *harness, id string) {
			older, err := h.store.Grant(t.Context(), id)
			if err != nil || older.Lineage != "one" {
				t.Fatalf("%+v, %v", older, err)
			}
			older.Lineage = ""
			again(h, h.withJSON(id, jsonOf(t, older)), id)
		}},
		"the person is disabled": {1, func(t *testing.T, h *harness, id string) {
			older := h.item(id)
			if err := admin.DisableUser(t.Context(), h.store, personName); err != nil {
				t.Fatal(err)
			}
			again(h, older, id)
		}},
		"the person is removed": {1, func(t *testing.T, h *harness, id string) {
			older := h.item(id)
			if err := admin.RemoveUser(t.Context(), h.store, personName); err != nil {
				t.Fatal(err)
			}
			again(h, older, id)
		}},
		"the person is another one of that name": {1, func(t *testing.T, h *harness, id string) {
			older := h.item(id)
			if err := admin.RemoveUser(t.Context(), h.store, personName); err != nil {
				t.Fatal(err)
			}
			h.addPerson(personName)
			again(h, older, id)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, setup{})
			chain, access := h.loseRotations(h.newBrowser(), c, test.missing)
			newest := chain[len(chain)-1]
			id := h.grantOfToken(newest).ID
			test.spoil(t, h, id)
			if !h.active(access) {
				t.Fatal("the grant is not alive to begin with")
			}
			for _, token := range []string{newest, newest, chain[1]} {
				mustRefuse(t, h.toToken(c, refreshing(c, token)), http.StatusBadRequest, "invalid_grant")
			}
			if g := h.grantOfToken(newest); g.State != storage.GrantRevoked || g.RevokedBecause != forgotten || g.Generation != 1 || h.active(access) {
				t.Errorf("the grant is %s because %q, generation %d; want revoked because %q", g.State, g.RevokedBecause, g.Generation, forgotten)
			}
			if h.logged(alarm, id) != 1 || h.logged("level=ERROR", id) != 1 || h.logged(restored, id) != 0 {
				t.Errorf("the log raises no alarm, or a line about restored rotations:\n%s", h.log)
			}
		})
	}
}

// TestForgottenAndUntouched: requests without a right to the grant change nothing: the grant
// is neither restored nor revoked, and the client can still use it.
func TestForgottenAndUntouched(t *testing.T) {
	t.Parallel()
	h, c, other := newHarness(t, setup{}), testClients()["native"], testClients()["other"]
	chain, access := h.loseRotations(h.newBrowser(), c, 2)
	newest := chain[3]
	id := h.grantOfToken(newest).ID
	before := h.item(id)
	forged := func(at int) string {
		raw, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(newest, "gate_rt_"))
		if err != nil {
			t.Fatal(err)
		}
		raw[at] ^= 1
		return "gate_rt_" + base64.RawURLEncoding.EncodeToString(raw)
	}
	for name, test := range map[string]struct {
		ask    func() reply
		status int
		code   string
	}{
		"another client":             {func() reply { return h.toToken(other, refreshing(other, newest)) }, 400, "invalid_grant"},
		"a client that is disabled":  {func() reply { d := testClients()["disabled"]; return h.toToken(d, refreshing(d, newest)) }, 401, "invalid_client"},
		"a forged MAC":               {func() reply { return h.toToken(c, refreshing(c, forged(30))) }, 400, "invalid_grant"},
		"a forged generation":        {func() reply { return h.toToken(c, refreshing(c, forged(19))) }, 400, "invalid_grant"},
		"a forged great generation":  {func() reply { return h.toToken(c, refreshing(c, forged(16))) }, 400, "invalid_grant"},
		"a scope that is not theirs": {func() reply { return h.toToken(c, replaced(refreshing(c, newest), "scope", "tasks:read")) }, 400, "invalid_scope"},
		"another resource":           {func() reply { return h.toToken(c, replaced(refreshing(c, newest), "resource", tasks)) }, 400, "invalid_target"},
		"the store goes down on the way": {func() reply {
			h.meter.once(&h.meter.after, "get", "grant", func() { h.faults.SetDown(true) })
			defer h.faults.SetDown(false)
			defer h.meter.after.Store(nil)
			return h.toToken(c, refreshing(c, newest))
		}, 503, "temporarily_unavailable"},
		"the store goes down a step later": {func() reply {
			h.meter.once(&h.meter.after, "get", "user", func() { h.faults.SetDown(true) })
			defer h.faults.SetDown(false)
			defer h.meter.after.Store(nil)
			return h.toToken(c, refreshing(c, newest))
		}, 503, "temporarily_unavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			mustRefuse(t, test.ask(), test.status, test.code)
			if after := h.item(id); after.Version != before.Version || string(after.Data) != string(before.Data) {
				t.Error("something was written")
			}
		})
	}
	if h.logged(alarm, "") != 0 || !h.active(access) {
		t.Errorf("a request without a right to the grant raised an alarm:\n%s", h.log)
	}
	h.refreshed(c, newest)

	// A revoked grant is not restored, and nothing more happens to it.
	chain, access = h.loseRotations(h.newBrowser(), c, 2)
	id = h.grantOfToken(chain[3]).ID
	if err := h.store.Revoke(t.Context(), id, "test"); err != nil {
		t.Fatal(err)
	}
	before = h.item(id)
	mustRefuse(t, h.toToken(c, refreshing(c, chain[3])), http.StatusBadRequest, "invalid_grant")
	if after := h.item(id); after.Version != before.Version || h.active(access) || h.logged(alarm, id) != 0 {
		t.Error("a token from before the failover changed a revoked grant, or raised an alarm")
	}
	// One that is gone altogether is unknown.
	chain, _ = h.loseRotations(h.newBrowser(), c, 2)
	id = h.grantOfToken(chain[3]).ID
	if err := h.meter.Backend.Delete(t.Context(), "gatehouse:grant:"+id); err != nil {
		t.Fatal(err)
	}
	mustRefuse(t, h.toToken(c, refreshing(c, chain[3])), http.StatusBadRequest, "invalid_grant")
	if _, err := h.store.Grant(t.Context(), id); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("a grant that is gone was brought back: %v", err)
	}
}

// TestForgottenCost: restoring rotations costs one read more than a refresh, that of the
// person, and no write.
func TestForgottenCost(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{}), testClients()["native"]
	chain, _ := h.loseRotations(h.newBrowser(), c, 1)
	reads, writes := h.meter.reads.Load(), h.meter.writes.Load()
	h.refreshed(c, chain[2])
	if r, w := h.meter.reads.Load()-reads, h.meter.writes.Load()-writes; r != 2 || w != 1 {
		t.Errorf("making good read %d times and wrote %d times; want 2, 1", r, w)
	}
}
