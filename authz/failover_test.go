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
	"gatehouse.example/storage/storagetest"
)

// held returns the grant that a refresh token names, as it is on record.
func (h *house) held(token string) storage.Grant {
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

// item is the record of a grant, behind the back of the server.
func (h *house) item(id string) storage.Item {
	h.t.Helper()
	item, err := h.meter.Backend.Get(h.t.Context(), "gatehouse:grant:"+id)
	if err != nil {
		h.t.Fatal(err)
	}
	return item
}

// takeOver lets another copy of the database take over that has an older copy of a record.
func (h *house) takeOver(to storage.Lineage, id string, older storage.Item) {
	h.t.Helper()
	change := storage.Put{Key: "gatehouse:grant:" + id, Data: older.Data, If: storage.Always, Operation: older.Version}
	if _, err := h.meter.Backend.Put(h.t.Context(), change); err != nil {
		h.t.Fatal(err)
	}
	h.faults.SetLineage(to)
}

// refreshed refreshes and returns the answer, which must be a success.
func (h *house) refreshed(c member, token string) reply {
	h.t.Helper()
	answer := h.toToken(c, refreshing(c, token))
	if answer.status != http.StatusOK {
		h.t.Fatalf("refresh: %s", answer)
	}
	return answer
}

const (
	madeGood  = "a failover forgot rotations of a refresh token"
	alarm     = "the store lost an acknowledged rotation"
	forgotten = "a refresh token from a forgotten write was used"
)

// logged counts the lines of the log that say something about a grant.
func (h *house) logged(what, id string) (n int) {
	for line := range strings.Lines(h.log.String()) {
		if strings.Contains(line, what) && strings.Contains(line, id) {
			n++
		}
	}
	return n
}

// TestCodeStaysWithItsLineage: a code is redeemed on the copy of the database where it
// was issued, and nowhere else: another one may have forgotten that it was redeemed. The
// client hears invalid_grant, nothing is written and nobody is punished.
func TestCodeStaysWithItsLineage(t *testing.T) {
	t.Parallel()
	c := cast()["native"]
	h := newHouse(t, build{})
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
		h.faults.SetLineage("one") // shows that the code was not burnt
		if answer := h.toToken(c, redemption(c, code)); answer.status != http.StatusOK {
			t.Errorf("%s: where the code was issued: %s", name, answer)
		}
	}
}

// TestCodeWithoutLineage: where nothing can take over codes are redeemed, also when a
// replica joins meanwhile; and a code that was redeemed is a replay on every copy.
func TestCodeWithoutLineage(t *testing.T) {
	t.Parallel()
	h, c := newHouse(t, build{}), cast()["native"]
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

// TestRefreshAcrossTakeover: refreshing goes on on whatever copy answers, with the rules
// that it has everywhere.
func TestRefreshAcrossTakeover(t *testing.T) {
	t.Parallel()
	h, c := newHouse(t, build{}), cast()["native"]
	h.faults.SetLineage("one")
	first := h.tokens(c).refresh
	h.faults.SetLineage("two")
	second := h.refreshed(c, first).member(t, "refresh_token")
	if again := h.refreshed(c, first).member(t, "refresh_token"); again != second {
		t.Errorf("the previous token gets %q, the first time it got %q", again, second)
	}
	h.meter.once(&h.meter.before, "put", "grant", func() { h.faults.SetLineage("three") })
	third := h.refreshed(c, second).member(t, "refresh_token")
	if g := h.held(third); g.Generation != 2 || g.Lineage != "three" {
		t.Errorf("the grant has generation %d, lineage %q; want 2, three", g.Generation, g.Lineage)
	}
	h.faults.SetLineage("four")
	mustRefuse(t, h.toToken(c, refreshing(c, first)), http.StatusBadRequest, "invalid_grant")
	mustRefuse(t, h.toToken(c, refreshing(c, third)), http.StatusBadRequest, "invalid_grant")
	if h.logged(alarm, "") != 0 || h.logged(madeGood, "") != 0 {
		t.Errorf("nothing was forgotten:\n%s", h.log)
	}
}

// TestRevokedOnEveryLineage: what is revoked stays revoked whatever takes over, and a
// revocation that was forgotten between its two steps is made, never only reported.
func TestRevokedOnEveryLineage(t *testing.T) {
	t.Parallel()
	h, c := newHouse(t, build{}).hurried(), cast()["native"]
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
	before := h.item(h.held(held.refresh).ID)
	for _, l := range []storage.Lineage{"two", "three", "one"} {
		h.faults.SetLineage(l)
		dead(string(l), held)
		writes := h.meter.writes.Load()
		if r := revoke(held.refresh); r.status != http.StatusOK || h.meter.writes.Load() != writes+1 {
			t.Errorf("a second revocation sent %d writes: %s", h.meter.writes.Load()-writes, r)
		}
	}
	h.faults.LoseReplies(1 << 30)
	mustRefuse(t, revoke(held.refresh), http.StatusServiceUnavailable, "temporarily_unavailable")
	h.faults.LoseReplies(0)
	if after := h.item(h.held(held.refresh).ID); after.Version != before.Version || string(after.Data) != string(before.Data) {
		t.Error("a second revocation changed the record")
	}

	for _, steps := range []int{1, 2} { // the takeover comes with the first revocation, or with the second
		h.faults.SetLineage("one")
		held = b.tokens(c, asks(c))
		id := h.held(held.refresh).ID
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

// forget refreshes a client's token often, and lets another copy of the database take
// over that forgot all but one of the rotations. It returns every refresh token that the
// client ever had: the second is the one on record, the last one is what the client holds.
func (h *house) forget(b *browser, c member, missing int) (chain []string, access string) {
	h.t.Helper()
	h.faults.SetLineage("one")
	chain = append(chain, b.tokens(c, asks(c)).refresh)
	answer := h.refreshed(c, chain[0])
	chain = append(chain, answer.member(h.t, "refresh_token"))
	older := h.item(h.held(chain[0]).ID)
	for range missing {
		answer = h.refreshed(c, chain[len(chain)-1])
		chain = append(chain, answer.member(h.t, "refresh_token"))
	}
	h.takeOver("two", h.held(chain[0]).ID, older)
	return chain, answer.member(h.t, "access_token")
}

// TestForgottenRotations: a client goes on after a failover that forgot up to eight
// rotations, and everything is as it always is.
func TestForgottenRotations(t *testing.T) {
	t.Parallel()
	h, c := newHouse(t, build{}), cast()["native"]
	b := h.newBrowser()
	for missing := 1; missing <= 8; missing++ {
		chain, access := h.forget(b, c, missing)
		id, newest := h.held(chain[0]).ID, chain[len(chain)-1]
		answer := h.refreshed(c, newest)
		next := answer.member(t, "refresh_token")
		if g := h.held(next); int(g.Generation) != missing+2 || g.Lineage != "two" || !h.active(access) || !h.active(answer.member(t, "access_token")) {
			t.Errorf("%d missing: the grant has generation %d, lineage %q", missing, g.Generation, g.Lineage)
		}
		if h.logged(madeGood, id) != 1 || h.logged(alarm, id) != 0 || h.logged("level=ERROR", id) != 0 {
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

// TestForgottenRotationsTogether: many who hold the same forgotten token get the same
// successor, and it works.
func TestForgottenRotationsTogether(t *testing.T) {
	t.Parallel()
	h, c := newHouse(t, build{}), cast()["native"]
	b := h.newBrowser()
	for _, held := range []bool{true, false} {
		chain, _ := h.forget(b, c, 3)
		if held {
			h.meter.hold(crowd)
		}
		replies := together(func(int) reply { return h.toToken(c, refreshing(c, chain[4])) })
		h.meter.after.Store(nil)
		next := sameSuccessor(t, replies)
		if g := h.held(next); g.Generation != 5 || g.State != storage.GrantActive {
			t.Errorf("the grant is %s, generation %d; want active, 5", g.State, g.Generation)
		}
		h.refreshed(c, next)
	}
}

// TestForgottenStepwise: tokens that were forgotten come back in the order in which they
// were issued, and what is still on record is not the newest any more.
func TestForgottenStepwise(t *testing.T) {
	t.Parallel()
	h, c := newHouse(t, build{}), cast()["native"]
	b := h.newBrowser()
	chain, _ := h.forget(b, c, 3)
	for i := 2; i < 5; i++ { // a client that repeats what it did gets what it got
		if got := h.refreshed(c, chain[i]).member(t, "refresh_token"); i < 4 && got != chain[i+1] {
			t.Errorf("token %d gets %q; want %q", i, got, chain[i+1])
		}
	}
	// The other way round the token on record is an old one, and the family ends.
	chain, access := h.forget(b, c, 3)
	h.refreshed(c, chain[4])
	mustRefuse(t, h.toToken(c, refreshing(c, chain[1])), http.StatusBadRequest, "invalid_grant")
	if h.active(access) {
		t.Error("an old token did not end the family")
	}
	// Who comes with the token on record first makes the new lineage know the grant, and
	// what was forgotten before is not made good on it any more.
	chain, access = h.forget(b, c, 3)
	if got := h.refreshed(c, chain[1]).member(t, "refresh_token"); got != chain[2] {
		t.Errorf("the token on record gets %q; want %q", got, chain[2])
	}
	mustRefuse(t, h.toToken(c, refreshing(c, chain[4])), http.StatusBadRequest, "invalid_grant")
	if h.active(access) || h.logged(alarm, h.held(chain[0]).ID) != 1 {
		t.Error("a token that the lineage cannot have forgotten did not end the family")
	}
}

// TestForgottenAndRefused: what a failover does not explain, or what nobody has a right to
// any more, is not made good. The family ends, and the log raises an alarm.
func TestForgottenAndRefused(t *testing.T) {
	t.Parallel()
	c := cast()["native"]
	again := func(h *house, older storage.Item, id string) { h.takeOver("two", id, older) } // with the revocation forgotten
	for name, test := range map[string]struct {
		missing int
		spoil   func(t *testing.T, h *house, id string)
	}{
		"nine are missing": {9, func(*testing.T, *house, string) {}},
		"the same lineage": {1, func(_ *testing.T, h *house, _ string) { h.faults.SetLineage("one") }},
		"no lineage on record": {1, func(t *testing.T, h *house, id string) {
			older := h.item(id)
			older.Data = []byte(strings.Replace(string(older.Data), `"lineage":"one"`, `"lineage":""`, 1))
			older.Version[0] ^= 1
			again(h, storagetest.SealAnew(t, masterKey, h.issuer, "gatehouse:grant:"+id, older), id)
		}},
		"the person is disabled": {1, func(t *testing.T, h *house, id string) {
			older := h.item(id)
			if err := admin.DisableUser(t.Context(), h.store, personName); err != nil {
				t.Fatal(err)
			}
			again(h, older, id)
		}},
		"the person is removed": {1, func(t *testing.T, h *house, id string) {
			older := h.item(id)
			if err := admin.RemoveUser(t.Context(), h.store, personName); err != nil {
				t.Fatal(err)
			}
			again(h, older, id)
		}},
		"the person is another one of that name": {1, func(t *testing.T, h *house, id string) {
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
			h := newHouse(t, build{})
			chain, access := h.forget(h.newBrowser(), c, test.missing)
			newest := chain[len(chain)-1]
			id := h.held(newest).ID
			test.spoil(t, h, id)
			if !h.active(access) {
				t.Fatal("the grant is not alive to begin with")
			}
			for _, token := range []string{newest, newest, chain[1]} {
				mustRefuse(t, h.toToken(c, refreshing(c, token)), http.StatusBadRequest, "invalid_grant")
			}
			if g := h.held(newest); g.State != storage.GrantRevoked || g.RevokedBecause != forgotten || g.Generation != 1 || h.active(access) {
				t.Errorf("the grant is %s because %q, generation %d; want revoked because %q", g.State, g.RevokedBecause, g.Generation, forgotten)
			}
			if h.logged(alarm, id) != 1 || h.logged("level=ERROR", id) != 1 || h.logged(madeGood, id) != 0 {
				t.Errorf("the log raises no alarm, or says that something was made good:\n%s", h.log)
			}
		})
	}
}

// TestForgottenAndUntouched: who has no right to ask changes nothing: neither is anything
// made good, nor does the family end. The client goes on afterwards.
func TestForgottenAndUntouched(t *testing.T) {
	t.Parallel()
	h, c, other := newHouse(t, build{}), cast()["native"], cast()["other"]
	chain, access := h.forget(h.newBrowser(), c, 2)
	newest := chain[3]
	id := h.held(newest).ID
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
		"a client that is disabled":  {func() reply { d := cast()["disabled"]; return h.toToken(d, refreshing(d, newest)) }, 401, "invalid_client"},
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
		t.Errorf("somebody who had no right raised an alarm:\n%s", h.log)
	}
	h.refreshed(c, newest)

	// A grant that is revoked is not brought back, and nothing more happens to it.
	chain, access = h.forget(h.newBrowser(), c, 2)
	id = h.held(chain[3]).ID
	if err := h.store.Revoke(t.Context(), id, "test"); err != nil {
		t.Fatal(err)
	}
	before = h.item(id)
	mustRefuse(t, h.toToken(c, refreshing(c, chain[3])), http.StatusBadRequest, "invalid_grant")
	if after := h.item(id); after.Version != before.Version || h.active(access) || h.logged(alarm, id) != 0 {
		t.Error("a token from before the failover changed a revoked grant, or raised an alarm")
	}
	// One that is gone altogether is unknown.
	chain, _ = h.forget(h.newBrowser(), c, 2)
	id = h.held(chain[3]).ID
	if err := h.meter.Backend.Delete(t.Context(), "gatehouse:grant:"+id); err != nil {
		t.Fatal(err)
	}
	mustRefuse(t, h.toToken(c, refreshing(c, chain[3])), http.StatusBadRequest, "invalid_grant")
	if _, err := h.store.Grant(t.Context(), id); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("a grant that is gone was brought back: %v", err)
	}
}

// TestForgottenCost: making good costs one read more than any refresh, that of the person,
// and no write.
func TestForgottenCost(t *testing.T) {
	t.Parallel()
	h, c := newHouse(t, build{}), cast()["native"]
	chain, _ := h.forget(h.newBrowser(), c, 1)
	reads, writes := h.meter.reads.Load(), h.meter.writes.Load()
	h.refreshed(c, chain[2])
	if r, w := h.meter.reads.Load()-reads, h.meter.writes.Load()-writes; r != 2 || w != 1 {
		t.Errorf("making good read %d times and wrote %d times; want 2, 1", r, w)
	}
}
