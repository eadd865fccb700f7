package storagetest

import (
	"errors"
	"testing"

	"gatehouse.example/storage"
)

// wantUntouched checks that nothing was written under key since item was read.
func (f *fixture) wantUntouched(t *testing.T, what, key string, item storage.Item) {
	t.Helper()
	wantItem(t, what+": the record", f.backend.item(t, key), string(item.Data), item.Version)
}

// wantElsewhere checks that a redemption is refused with [storage.ErrLineage] only.
func (f *fixture) wantElsewhere(t *testing.T, what string, g storage.Grant) {
	t.Helper()
	_, err := f.Redeem(t.Context(), g, f.life())
	wantError(t, what, err, storage.ErrLineage)
	for _, other := range []error{storage.ErrConflict, storage.ErrNotFound, storage.ErrUnavailable} {
		if errors.Is(err, other) {
			t.Errorf("%s: the error is also %v", what, other)
		}
	}
}

// testGrantLineage: a code is redeemed only on the lineage where it was issued. Everything after
// the code works on any lineage.
func testGrantLineage(t *testing.T, f *fixture) {
	f.faults.SetLineage("one")
	code, _ := f.grant(t, true)
	active, gone := f.active(t), f.active(t)
	if code.Lineage != "one" || active.Lineage != "one" {
		t.Errorf("grants carry the lineages %q and %q; want one", code.Lineage, active.Lineage)
	}
	issued := f.backend.item(t, grantKey(code.ID))
	f.faults.SetLineage("two")
	for range 2 {
		f.wantElsewhere(t, "Redeem of a code from elsewhere", code)
		f.wantElsewhere(t, "Redeem of what is read now", f.read(t, code.ID))
		f.wantUntouched(t, "a refused code", grantKey(code.ID), issued)
	}
	for i := range uint32(2) {
		var err error
		active, err = f.Rotate(t.Context(), active, f.life())
		wantError(t, "Rotate", err, nil)
		if active.Lineage != "two" || active.Generation != i+1 {
			t.Errorf("after a rotation the lineage is %q, the generation %d; want two, %d", active.Lineage, active.Generation, i+1)
		}
		wantSame(t, "Rotate", active, f.read(t, active.ID))
	}
	wantError(t, "Revoke", f.Revoke(t.Context(), gone.ID, "test"), nil)
	if got := f.read(t, gone.ID); got.Lineage != "two" {
		t.Errorf("after its revocation the grant carries the lineage %q; want two", got.Lineage)
	}
	for _, l := range []storage.Lineage{"two", "one", "three"} {
		f.faults.SetLineage(l)
		f.wantRevoked(t, gone)
		wantError(t, "Revoke again", f.Revoke(t.Context(), gone.ID, "test"), nil)
	}
	f.wantElsewhere(t, "Redeem of a code on a third copy", code)
	wantError(t, "Revoke of a code from elsewhere", f.Revoke(t.Context(), f.codeOn(t, "one", "three").ID, "test"), nil)
	f.faults.SetLineage("one")
	_, err := f.Redeem(t.Context(), code, f.life()) // the refused redemption did not spend it
	wantError(t, "Redeem where the code was issued", err, nil)
}

// codeOn issues a code on one copy of the database and lets another take over.
func (f *fixture) codeOn(t *testing.T, issued, now storage.Lineage) storage.Grant {
	t.Helper()
	f.faults.SetLineage(issued)
	g, _ := f.grant(t, true)
	f.faults.SetLineage(now)
	return g
}

// testLineageBetween: another copy takes over between the read and the swap.
func testLineageBetween(t *testing.T, f *fixture) {
	takeOver := func() { f.faults.SetLineage("two") }
	f.faults.SetLineage("one")
	code, _ := f.grant(t, true)
	active, gone := f.active(t), f.active(t)
	issued := f.backend.item(t, grantKey(code.ID))
	f.faults.beforePut(takeOver)
	f.wantElsewhere(t, "Redeem", code)
	f.wantUntouched(t, "Redeem", grantKey(code.ID), issued)

	f.faults.SetLineage("one")
	f.faults.beforePut(takeOver)
	rotated, err := f.Rotate(t.Context(), active, f.life())
	wantError(t, "Rotate", err, nil)
	if rotated.Generation != 1 || rotated.Lineage != "two" {
		t.Errorf("after a rotation the lineage is %q, the generation %d; want two, 1", rotated.Lineage, rotated.Generation)
	}
	_, err = f.Rotate(t.Context(), active, f.life())
	wantError(t, "Rotate again", err, storage.ErrConflict)

	f.faults.SetLineage("one")
	f.faults.beforePut(takeOver)
	wantError(t, "Revoke", f.Revoke(t.Context(), gone.ID, "test"), nil)
	f.wantRevoked(t, gone)

	// A write that happened before, and whose reply was lost, has happened.
	f.faults.SetLineage("one")
	code, _ = f.grant(t, true)
	f.faults.LoseReplies(1)
	f.faults.beforePut(func() { f.faults.beforePut(takeOver) }) // before the second sending
	redeemed, err := f.Redeem(t.Context(), code, f.life())
	wantError(t, "Redeem whose reply is lost in a takeover", err, nil)
	wantSame(t, "Redeem whose reply is lost in a takeover", redeemed, f.read(t, code.ID))
}

// testLineageNone: where no copy can take over nothing is refused, and what was written there is
// not refused later.
func testLineageNone(t *testing.T, f *fixture) {
	code, _ := f.grant(t, true)
	f.edit(t, grantKey(code.ID), func(members map[string]any) { delete(members, "lineage") })
	code = f.read(t, code.ID)
	if code.Lineage != "" {
		t.Fatalf("the grant carries the lineage %q", code.Lineage)
	}
	f.faults.SetLineage("two")
	redeemed, err := f.Redeem(t.Context(), code, f.life())
	wantError(t, "Redeem of a code from before there were replicas", err, nil)
	if redeemed.Lineage != "" {
		t.Errorf("a redemption on no lineage carries %q", redeemed.Lineage)
	}
	rotated, err := f.Rotate(t.Context(), redeemed, f.life())
	wantError(t, "Rotate", err, nil)
	if rotated.Lineage != "two" {
		t.Errorf("after a rotation the lineage is %q; want two", rotated.Lineage)
	}
}

// testLineageCreate: a grant carries the lineage on which it was stored, also when that began
// while it was being stored.
func testLineageCreate(t *testing.T, f *fixture) {
	f.faults.SetLineage("one")
	prepared, _ := f.prepare(t, true)
	f.faults.beforePut(func() { f.faults.SetLineage("two") })
	wantError(t, "CreateGrant", f.CreateGrant(t.Context(), prepared), nil)
	g := f.read(t, prepared.ID)
	if g.Lineage != "two" {
		t.Errorf("the grant carries the lineage %q; want two", g.Lineage)
	}
	wantGrants(t, "the person's", f.UserGrants(t.Context(), g.Subject), g.ID)
	f.faults.SetLineage("one")
	f.wantElsewhere(t, "Redeem where it was not stored", g)
	f.faults.SetLineage("two")
	_, err := f.Redeem(t.Context(), g, f.life())
	wantError(t, "Redeem where it was stored", err, nil)
}

// testLineageRestless: when one copy after the other takes over, a write ends with
// ErrUnavailable, and changes nothing.
func testLineageRestless(t *testing.T, f *fixture) {
	f.faults.SetLineage("0")
	active := f.active(t)
	fresh, _ := f.prepare(t, true)
	before := f.backend.item(t, grantKey(active.ID))
	for what, call := range map[string]func() error{
		"Rotate":      func() error { _, err := f.Rotate(t.Context(), active, f.life()); return err },
		"Revoke":      func() error { return f.Revoke(t.Context(), active.ID, "test") },
		"RevokeUser":  func() error { return f.RevokeUser(t.Context(), active.Subject, "test") },
		"CreateGrant": func() error { return f.CreateGrant(t.Context(), fresh) },
	} {
		times := 0
		var again func()
		again = func() {
			times++
			f.faults.SetLineage(storage.Lineage(unique("")))
			f.faults.beforePut(again)
		}
		f.faults.beforePut(again)
		wantUnavailable(t, what, call())
		f.faults.beforePut(nil)
		if times < 2 || times > 10 {
			t.Errorf("%s was sent %d times", what, times)
		}
		f.wantUntouched(t, what, grantKey(active.ID), before)
	}
	_, err := f.Grant(t.Context(), fresh.ID)
	wantError(t, "Grant that could not be stored", err, storage.ErrNotFound)
	wantError(t, "Revoke after quiet", f.Revoke(t.Context(), active.ID, "test"), nil)
	f.wantRevoked(t, active)
}

// forgotten returns a grant as a copy of the database has it that has taken over and lacks that
// many rotations, and the generation that the client of the grant holds.
func (f *fixture) forgotten(t *testing.T, missing uint32) (g storage.Grant, held uint32) {
	t.Helper()
	f.faults.SetLineage("one")
	g, err := f.Rotate(t.Context(), f.active(t), f.life())
	wantError(t, "Rotate", err, nil)
	f.faults.SetLineage("two")
	return g, g.Generation + missing
}

// testRemember: up to eight rotations that a failover lost are restored, by exactly one of the
// callers with the proof.
func testRemember(t *testing.T, f *fixture) {
	for missing := uint32(1); missing <= 8; missing++ {
		g, held := f.forgotten(t, missing)
		sent := f.faults.Puts()
		remembered, ok, err := f.Remember(t.Context(), g, held)
		wantError(t, "Remember", err, nil)
		if !ok || f.faults.Puts() != sent {
			t.Fatalf("with %d missing, Remember said %t and wrote %d times", missing, ok, f.faults.Puts()-sent)
		}
		want := g
		want.Generation, want.Lineage = held, "two"
		wantSame(t, "Remember", remembered, want)
		other, ok, err := f.Remember(t.Context(), f.read(t, g.ID), held)
		if !ok || err != nil {
			t.Errorf("a second time, Remember said %t, %v", ok, err)
		}
		rotated, err := f.Rotate(t.Context(), remembered, f.life())
		wantError(t, "Rotate of what was remembered", err, nil)
		current, err := f.Rotate(t.Context(), other, f.life())
		wantError(t, "Rotate of what another remembered", err, storage.ErrConflict)
		for _, got := range []storage.Grant{rotated, current, f.read(t, g.ID)} {
			if got.Generation != held+1 || got.Lineage != "two" || got.State != storage.GrantActive {
				t.Errorf("with %d missing, the grant is %s, generation %d, lineage %q; want %d, two", missing, got.State, got.Generation, got.Lineage, held+1)
			}
		}
		_, ok, err = f.Remember(t.Context(), rotated, held+2)
		if ok || err != nil {
			t.Errorf("after that, Remember said %t, %v of a generation that never was", ok, err)
		}
	}
}

// testRememberRefused: nothing is restored that a failover does not explain.
func testRememberRefused(t *testing.T, f *fixture) {
	g, held := f.forgotten(t, 9)
	none, revoked, code, here := g, g, g, g
	none.Lineage, revoked.State, code.State, here.Lineage = "", storage.GrantRevoked, storage.GrantCode, "two"
	for what, test := range map[string]struct {
		grant      storage.Grant
		generation uint32
	}{
		"more than eight":      {g, held},
		"very many":            {g, 1<<32 - 1},
		"the current one":      {g, g.Generation},
		"the one before":       {g, g.Generation - 1},
		"no lineage on record": {none, g.Generation + 1},
		"the same lineage":     {here, g.Generation + 1},
		"a revoked grant":      {revoked, g.Generation + 1},
		"a code":               {code, g.Generation + 1},
	} {
		got, ok, err := f.Remember(t.Context(), test.grant, test.generation)
		if ok || err != nil || got.ID != "" {
			t.Errorf("%s: Remember returned %q, %t, %v; want a refusal", what, got.ID, ok, err)
		}
	}
	if _, ok, err := f.Remember(t.Context(), g, held-1); !ok || err != nil {
		t.Errorf("Remember of eight said %t, %v", ok, err)
	}
	f.faults.SetDown(true)
	_, ok, err := f.Remember(t.Context(), g, held-1)
	wantUnavailable(t, "Remember while the store is down", err)
	if ok {
		t.Error("Remember believes what it cannot ask")
	}
	f.faults.SetDown(false)
	f.faults.SetLineage("")
	if l, err := f.faults.Lineage(t.Context()); err == nil && l == "" {
		if _, ok, err := f.Remember(t.Context(), g, held-1); ok || err != nil {
			t.Errorf("where no copy takes over, Remember said %t, %v", ok, err)
		}
	}
}

// testRevokeConfirmed: a second revocation sends the write of the first one again, which changes
// nothing, and reports no more than the store confirms.
func testRevokeConfirmed(t *testing.T, f *fixture) {
	f.faults.SetLineage("one")
	g := f.active(t)
	wantError(t, "Revoke", f.Revoke(t.Context(), g.ID, "first"), nil)
	before := f.backend.item(t, grantKey(g.ID))
	for _, l := range []storage.Lineage{"one", "two"} {
		f.faults.SetLineage(l)
		sent := len(f.backend.writes())
		wantError(t, "Revoke again", f.Revoke(t.Context(), g.ID, "second"), nil)
		writes := f.backend.writes()[sent:]
		if len(writes) != 1 || writes[0].Key != grantKey(g.ID) || writes[0].Operation != before.Version || writes[0].If != storage.Unchanged(before.Version) {
			t.Errorf("a second revocation wrote %d times, %+v; want the first write again", len(writes), writes)
		}
		f.wantUntouched(t, "a second revocation", grantKey(g.ID), before)
	}
	for what, lose := range map[string]func(int){"replies": f.faults.LoseReplies, "requests": f.faults.LoseRequests} {
		ctx, cancel := f.untilLost(t)
		lose(1 << 30)
		wantUnavailable(t, "Revoke again with lost "+what, f.Revoke(ctx, g.ID, "test"))
		wantUnavailable(t, "RevokeClient with lost "+what, f.RevokeClient(ctx, g.ClientID, "test"))
		lose(0)
		cancel()
		f.wantIndexed(t, "the index with lost "+what, clientGrants(g.ClientID), g.ID)
	}
	f.wantUntouched(t, "after all", grantKey(g.ID), before)
	f.faults.LoseReplies(1)
	wantError(t, "Revoke again with one lost reply", f.Revoke(t.Context(), g.ID, "test"), nil)

	// A grant that ends in between is over, and not restored.
	f.faults.beforePut(func() { f.backend.remove(t, grantKey(g.ID)) })
	wantError(t, "Revoke of a revoked grant that vanishes", f.Revoke(t.Context(), g.ID, "test"), nil)
	_, err := f.Grant(t.Context(), g.ID)
	wantError(t, "Grant that vanished", err, storage.ErrNotFound)
}

// testRevokeForgotten: a copy of the database that takes over between the two steps of a second
// revocation may lack the first one. It is then written again before it is reported.
func testRevokeForgotten(t *testing.T, f *fixture) {
	for what, revoke := range map[string]func(storage.Grant) error{
		"Revoke":       func(g storage.Grant) error { return f.Revoke(t.Context(), g.ID, "second") },
		"RevokeUser":   func(g storage.Grant) error { return f.RevokeUser(t.Context(), g.Subject, "second") },
		"RevokeClient": func(g storage.Grant) error { return f.RevokeClient(t.Context(), g.ClientID, "second") },
	} {
		f.faults.SetLineage("one")
		g := f.active(t)
		older := f.backend.item(t, grantKey(g.ID))
		wantError(t, "Revoke", f.Revoke(t.Context(), g.ID, "first"), nil)
		f.faults.beforePut(func() {
			f.backend.restore(t, grantKey(g.ID), older)
			f.faults.SetLineage("two")
		})
		wantError(t, what, revoke(g), nil)
		f.wantRevoked(t, g)
		if got := f.read(t, g.ID); got.RevokedBecause != "second" {
			t.Errorf("%s: the grant was revoked because %q; want second", what, got.RevokedBecause)
		}
	}
}

// testRevokeUnreadable: one record that cannot be read does not keep the other grants of a person
// from being revoked.
func testRevokeUnreadable(t *testing.T, f *fixture) {
	grants, ids := f.granted(t, 3)
	damaged := f.backend.item(t, grantKey(ids[0]))
	f.backend.overwrite(t, grantKey(ids[0]), append([]byte{3}, damaged.Data[1:]...))
	for range 2 {
		wantError(t, "RevokeUser", f.RevokeUser(t.Context(), grants[0].Subject, "test"), storage.ErrRecord)
		f.wantRevoked(t, grants[1])
		f.wantRevoked(t, grants[2])
		f.wantIndexed(t, "the index", userGrants(grants[0].Subject), ids[0])
	}
	f.backend.restore(t, grantKey(ids[0]), damaged)
	wantError(t, "RevokeUser", f.RevokeUser(t.Context(), grants[0].Subject, "test"), nil)
	f.wantRevoked(t, grants[0])
	f.wantIndexed(t, "the index", userGrants(grants[0].Subject))
}
