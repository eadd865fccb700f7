package storagetest

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"gatehouse.example/storage"
)

// Grants in the sealed form have a compact body that begins with 1; all others are JSON.
const (
	compactBody = 1
	jsonBody    = '{'
)

func (f *fixture) wantBody(t *testing.T, what, id string, first byte) {
	t.Helper()
	if _, body := f.parts(t, grantKey(id)); body[0] != first {
		t.Errorf("%s: the body of the grant begins with %q; want %q", what, body[0], first)
	}
}

// testGrantBodies: grants that were sealed as JSON are read as ever, whatever their state, and become
// compact with their next write.
func testGrantBodies(t *testing.T, f *fixture) {
	ctx := t.Context()
	redeemed := func(g storage.Grant) storage.Grant {
		t.Helper()
		g, err := f.Redeem(ctx, g, f.life(), g.Resources...)
		wantError(t, "Redeem", err, nil)
		return g
	}
	code, _ := f.grant(t, true)
	revoked := f.active(t)
	wantError(t, "Revoke", f.Revoke(ctx, revoked.ID, "its person asked for it"), nil)
	forestalled := unique("forestalled")
	fill(t, f.backend, userGrants("nobody"), name("%08x", f.clock.Now().Unix())+forestalled)
	wantError(t, "RevokeUser", f.RevokeUser(ctx, "nobody", "nothing was there"), nil)
	rotate := func(g storage.Grant) (storage.Grant, error) { return f.Rotate(ctx, g, f.life()) }
	for what, test := range map[string]struct {
		g     storage.Grant
		more  map[string]any
		write func(storage.Grant) (storage.Grant, error) // nil if nothing writes it any more
	}{
		"a code":            {code, nil, func(g storage.Grant) (storage.Grant, error) { return f.Redeem(ctx, g, f.life(), g.Resources...) }},
		"several":           {redeemed(f.several(t)), nil, rotate},
		"without pairs":     {f.active(t), nil, rotate},
		"an end of one":     {redeemed(f.several(t)), nil, func(g storage.Grant) (storage.Grant, error) { return g, f.EndResource(ctx, g.ID, tasks, "test") }},
		"unanswered":        {f.active(t), map[string]any{"unanswered": true}, func(g storage.Grant) (storage.Grant, error) { return g, f.Revoke(ctx, g.ID, "test") }},
		"a revoked one":     {f.read(t, revoked.ID), nil, nil},
		"a forestalled one": {f.read(t, forestalled), nil, nil},
	} {
		f.wantBody(t, what, test.g.ID, compactBody)
		f.edit(t, grantKey(test.g.ID), func(members map[string]any) {
			for name, value := range test.more {
				members[name] = value
			}
		})
		f.wantBody(t, what+", as JSON", test.g.ID, jsonBody)
		read := f.read(t, test.g.ID)
		if test.more == nil {
			wantSame(t, what+", as JSON", read, test.g)
		}
		if test.write == nil {
			continue
		}
		written, err := test.write(read)
		wantError(t, what, err, nil)
		f.wantBody(t, what+", written", test.g.ID, compactBody)
		after := f.read(t, test.g.ID)
		if after.ID != read.ID || after.Unanswered != read.Unanswered || after.State == read.State && after.Generation == read.Generation && len(after.Resources) == len(read.Resources) {
			t.Errorf("%s is %+v after its write; it was %+v", what, after, read)
		}
		if written.State == after.State && len(written.Resources) == len(after.Resources) {
			wantSame(t, what+", read again", after, written)
		}
	}
}

// testGrantTimes: a grant whose times are not whole milliseconds, as earlier programs wrote them, is
// read as it is written the next time. What a process holds is what it reads later.
func testGrantTimes(t *testing.T, f *fixture) {
	g := f.active(t)
	zone := time.FixedZone("", 7200)
	f.edit(t, grantKey(g.ID), func(members map[string]any) {
		for name, value := range members {
			if at, err := time.Parse(time.RFC3339Nano, textOf(value)); err == nil {
				members[name] = at.Add(999_999).In(zone)
			}
		}
	})
	if got := f.read(t, g.ID); toString(t, got) != toString(t, g) {
		t.Errorf("with a part of a millisecond more the grant is %s; want %s", toString(t, got), toString(t, g))
	}
	f.clock.advance(1234567)
	prepared, _ := f.prepare(t, true)
	wantError(t, "CreateGrant", f.CreateGrant(t.Context(), prepared), nil)
	created := f.read(t, prepared.ID)
	prepared.Lineage = created.Lineage // some stores note it as they create a grant
	if toString(t, created) != toString(t, prepared) {
		t.Errorf("a new grant is %s; want %s", toString(t, created), toString(t, prepared))
	}
	rotated, err := f.Rotate(t.Context(), f.read(t, g.ID), f.life())
	wantError(t, "Rotate", err, nil)
	if got := f.read(t, g.ID); toString(t, got) != toString(t, rotated) || !got.Rotated.Equal(f.clock.Now().Truncate(time.Millisecond)) {
		t.Errorf("after a rotation the grant is %s; want %s", toString(t, got), toString(t, rotated))
	}
}

func textOf(v any) string { s, _ := v.(string); return s }

func toString(t *testing.T, g storage.Grant) string { return string(toJSON(t, g)) }

// testGrantSwitch: before the switch grants are JSON that an earlier program reads, from the switch on
// they are compact, and a change of a grant that was read before it is not lost.
func testGrantSwitch(t *testing.T, begun *fixture) {
	then, f, other := older(t, begun.backend.Backend)
	ctx := t.Context()
	f.wantForm(t, storage.FormPlain)
	stale, kept := f.active(t), f.active(t)
	for _, g := range []storage.Grant{stale, kept} {
		f.wantBody(t, "before the switch", g.ID, jsonBody)
		if len(g.Seed) != 65 || len(g.Code) != 32 || len(g.Challenge) != 43 {
			t.Errorf("before the switch a grant has secrets that an earlier release does not know: %s", toString(t, g))
		}
		got, err := then.Grant(ctx, g.ID)
		wantError(t, "Grant by an earlier release", err, nil)
		wantSame(t, "the grant by an earlier release", got, g)
	}
	var members map[string]json.RawMessage
	if _, body := f.parts(t, grantKey(kept.ID)); json.Unmarshal(body, &members) != nil || string(members["id"]) != name("%q", kept.ID) {
		t.Errorf("before the switch a grant is %s", body)
	}
	_, err := f.SealRecords(ctx, nil)
	wantError(t, "SealRecords", err, nil)
	for _, g := range []storage.Grant{stale, kept} {
		f.wantBody(t, "after the switch", g.ID, compactBody)
		wantSame(t, "the grant after the switch", f.read(t, g.ID), g)
	}
	between := f.active(t)
	f.wantBody(t, "between", between.ID, compactBody)
	rotated, err := other.Rotate(ctx, stale, f.life()) // it has not heard of the switch
	wantError(t, "Rotate of what was read before the switch", err, nil)
	f.wantBody(t, "a grant that was read before the switch", stale.ID, compactBody)
	wantSame(t, "Rotate", f.read(t, stale.ID), rotated)
	f.clock.advance(2 * time.Minute)
	done, err := f.SealRecords(ctx, nil)
	if err != nil || done.Form != storage.FormSealed || done.Unreadable != 0 {
		t.Errorf("the end of the switch: %+v, %v", done, err)
	}
	for _, g := range []storage.Grant{rotated, kept, between} {
		g, err := f.Rotate(ctx, g, f.life())
		wantError(t, "Rotate at the end", err, nil)
		f.wantBody(t, "at the end", g.ID, compactBody)
	}
}

// testGrantResealed: a grant that was sealed as JSON under a key that is to be removed is compact
// afterwards, with the same contents, and a change that a process makes meanwhile is not lost. One with
// a version of the body that this program does not know stays as it is. The seed of a revoked one is
// never opened again, so no key has to open it.
func testGrantResealed(t *testing.T, f *fixture) {
	s := f.sealed(t)
	g, later, dead := s.redeemed(t), s.redeemed(t), s.redeemed(t)
	wantError(t, "Revoke", f.Revoke(t.Context(), dead.ID, "test"), nil)
	f.edit(t, grantKey(dead.ID), func(members map[string]any) { members["seed"] = []byte("no seal") })
	f.edit(t, grantKey(g.ID), func(map[string]any) {})
	g = f.read(t, g.ID)
	head, body := f.parts(t, grantKey(later.ID))
	item := storage.Item{Data: slices.Concat(head, []byte{compactBody + 1}, body[1:]), Version: operation()}
	item = SealAnew(t, f.backend.master, issuer, grantKey(later.ID), item)
	f.backend.restore(t, grantKey(later.ID), item)
	_, err := f.Store.Grant(t.Context(), later.ID)
	wantError(t, "Grant of a later version", err, storage.ErrRecord)
	if done := s.reseal(t); done.Unreadable != 1 {
		t.Errorf("resealing met %+v", done)
	}
	f.wantBody(t, "a grant of a later version", later.ID, compactBody+1)
	f.wantBody(t, "resealed", g.ID, compactBody)
	f.wantBody(t, "revoked, with a seed that no key opens", dead.ID, compactBody)
	s.wantFresh(t, g)
	rotated, err := f.Rotate(t.Context(), g, f.life())
	wantError(t, "Rotate of what was read before", err, nil)
	wantSame(t, "Rotate", f.read(t, g.ID), rotated)
}
