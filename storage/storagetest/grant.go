package storagetest

import (
	"testing"
	"time"

	"gatehouse.example/storage"
)

// testGrant: as long as nothing says that records are sealed, which may be so for the first grant of an
// unused store, the seed of a grant is sealed in the longer form.
func testGrant(t *testing.T, f *fixture) {
	f.wantGrant(t)
	if short := f.wantGrant(t); !short {
		t.Error("the seed of the second grant is not under a pad")
	}
}

// wantGrant checks the states of a new grant, and reports whether its seed is in the shorter form.
func (f *fixture) wantGrant(t *testing.T) (short bool) {
	t.Helper()
	prepared, code := f.prepare(t, true)
	short = len(prepared.Seed) == 21
	_, err := f.Grant(t.Context(), prepared.ID)
	wantError(t, "Grant before it is created", err, storage.ErrNotFound)
	wantError(t, "CreateGrant", f.CreateGrant(t.Context(), prepared), nil)
	wantError(t, "CreateGrant again", f.CreateGrant(t.Context(), prepared), storage.ErrConflict)
	g := f.read(t, prepared.ID)
	prepared.Lineage = f.lineage(t)
	wantSame(t, "Grant", g, prepared)
	if id, ok := storage.CodeGrant(code); !ok || id != g.ID || !g.Code.Matches(code) {
		t.Errorf("the code does not lead to its grant")
	}
	if g.State != storage.GrantCode {
		t.Errorf("a new grant is %s; want code", g.State)
	}
	_, err = f.Rotate(t.Context(), g, f.life())
	wantError(t, "Rotate before the code is redeemed", err, storage.ErrConflict)
	_, err = f.Redeem(t.Context(), prepared, f.life())
	wantError(t, "Redeem of a grant that was not read", err, storage.ErrConflict)

	f.clock.advance(time.Second)
	redeemed, err := f.Redeem(t.Context(), g, f.life())
	wantError(t, "Redeem", err, nil)
	want := g
	want.State, want.Lifetime, want.Rotated = storage.GrantActive, f.life(), f.clock.Now()
	if short {
		want.Code, want.Challenge = redeemed.Code, ""
	}
	wantSame(t, "Redeem", redeemed, want)
	wantSame(t, "Grant after Redeem", f.read(t, g.ID), want)
	_, err = f.Redeem(t.Context(), redeemed, f.life())
	wantError(t, "Redeem of a spent code", err, storage.ErrConflict)

	f.clock.advance(time.Hour)
	rotated, err := f.Rotate(t.Context(), redeemed, f.life())
	wantError(t, "Rotate", err, nil)
	want.Generation, want.Lifetime, want.Rotated = 1, f.life(), f.clock.Now()
	wantSame(t, "Rotate", rotated, want)
	wantSame(t, "Grant after Rotate", f.read(t, g.ID), want)
	current, err := f.Rotate(t.Context(), redeemed, f.life())
	wantError(t, "Rotate of what was read before", err, storage.ErrConflict)
	wantSame(t, "the losing Rotate", current, want)
	if _, err = f.Rotate(t.Context(), current, f.life()); err != nil {
		t.Errorf("Rotate of what the loser was told: %v", err)
	}
	wantProved(t, code, g, redeemed, rotated, f.read(t, g.ID))
	return short
}

// wantProved checks that a code and its verifier are recognised before and after the code is spent, and
// that neither is without the other.
func wantProved(t *testing.T, code string, grants ...storage.Grant) {
	t.Helper()
	const verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk" // of the example in RFC 7636, whose challenge the grants have
	for _, g := range grants {
		for _, test := range []struct {
			code, verifier string
			want           bool
		}{{code, verifier, true}, {code + "A", verifier, false}, {"", verifier, false}, {code, verifier + "A", false}, {code, "", false}} {
			if got := g.ProvedBy(test.code, test.verifier); got != test.want {
				t.Errorf("a grant in the state %s is proved by %q and %q: %t", g.State, test.code, test.verifier, got)
			}
		}
	}
}
