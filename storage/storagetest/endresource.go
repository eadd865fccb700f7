package storagetest

import (
	"errors"
	"runtime"
	"slices"
	"testing"

	"gatehouse.example/storage"
)

const (
	notes = "https://notes.example.com/mcp"
	tasks = "https://tasks.example.com/mcp"
	files = "https://files.example.com/mcp"
)

// several returns a stored grant for three resources: one without scopes, and two that share a
// scope that was consented at one of them only.
func (f *fixture) several(t *testing.T) storage.Grant {
	t.Helper()
	g, _, err := f.PrepareGrant(storage.NewGrant{
		ClientID: unique("client"), Subject: unique("subject"), Refreshable: true, CodeTTL: f.clock.later().Sub(f.clock.Now()),
		Access: storage.Access{
			{Resource: notes, Scopes: []string{"notes:read", "profile"}}, {Resource: tasks, Scopes: []string{"tasks:read"}}, {Resource: files},
		},
		Resources: []string{notes, tasks, files}, Scopes: []string{"notes:read", "tasks:read"},
	})
	wantError(t, "PrepareGrant", err, nil)
	wantError(t, "CreateGrant", f.CreateGrant(t.Context(), g), nil)
	return f.read(t, g.ID)
}

// testEndResource: a resource that has ended is gone from every member of the record, the last
// one ends the family, and an end that is on record is confirmed and not written again.
func testEndResource(t *testing.T, f *fixture) {
	g, err := f.Redeem(t.Context(), f.several(t), f.life(), notes)
	wantError(t, "Redeem", err, nil)
	end := func(resource string) storage.Grant {
		t.Helper()
		wantError(t, "EndResource "+resource, f.EndResource(t.Context(), g.ID, resource, "test"), nil)
		return f.read(t, g.ID)
	}
	want := f.read(t, g.ID)
	wantSame(t, "the audience of the redemption", want.Audience, []string{notes})
	want.Access, want.Resources, want.Scopes = want.Access[1:], []string{tasks, files}, []string{"tasks:read"}
	wantSame(t, "the grant without notes", end(notes), want)
	for range 2 {
		wantSame(t, "the grant without notes again", end(notes), want)
		wantSame(t, "the grant without what it never had", end("https://other.example.com/mcp"), want)
	}
	rotated, err := f.Rotate(t.Context(), f.read(t, g.ID), f.life())
	wantError(t, "Rotate", err, nil)
	wantSame(t, "the access after a rotation", rotated.Access, want.Access)
	end(tasks)
	last := end(files)
	if last.State != storage.GrantRevoked || last.RevokedBecause != "test" {
		t.Errorf("after the last resource the grant is %s because %q", last.State, last.RevokedBecause)
	}
	wantSame(t, "the revoked grant", end(files), last)
	revoked := f.several(t)
	wantError(t, "Revoke", f.Revoke(t.Context(), revoked.ID, "another reason"), nil)
	revoked = f.read(t, revoked.ID)
	wantError(t, "EndResource of a revoked grant", f.EndResource(t.Context(), revoked.ID, notes, "test"), nil)
	wantSame(t, "a revoked grant", f.read(t, revoked.ID), revoked)
	wantError(t, "EndResource of no grant", f.EndResource(t.Context(), unique("none"), notes, "test"), nil)
}

// testEndResourceOld: a resource can end in a record without pairs too, and a refresh that names
// none does not get another one instead.
func testEndResourceOld(t *testing.T, f *fixture) {
	g, _, err := f.PrepareGrant(storage.NewGrant{
		ClientID: unique("client"), Subject: unique("subject"), Refreshable: true, CodeTTL: f.clock.later().Sub(f.clock.Now()),
		Resources: []string{notes, tasks}, Scopes: []string{"notes:read", "profile"},
	})
	wantError(t, "PrepareGrant", err, nil)
	wantError(t, "CreateGrant", f.CreateGrant(t.Context(), g), nil)
	redeemed, err := f.Redeem(t.Context(), f.read(t, g.ID), f.life())
	wantError(t, "Redeem", err, nil)
	wantError(t, "EndResource", f.EndResource(t.Context(), g.ID, notes, "test"), nil)
	redeemed.Resources, redeemed.Audience = []string{tasks}, []string{notes}
	wantSame(t, "an old grant without notes", f.read(t, g.ID), redeemed)
}

// testEndResourceUncertain: an end that is not on record is not reported, and is written by the
// next call; a code that is not redeemed survives the end of another resource.
func testEndResourceUncertain(t *testing.T, f *fixture) {
	g := f.several(t)
	f.faults.SetDown(true)
	wantUnavailable(t, "EndResource", f.EndResource(t.Context(), g.ID, notes, "test"))
	f.faults.SetDown(false)
	wantSame(t, "the grant", f.read(t, g.ID), g)
	for what, lose := range map[string]func(int){"reply": f.faults.LoseReplies, "request": f.faults.LoseRequests} {
		g := f.several(t)
		lose(1)
		wantError(t, "EndResource, lost "+what, f.EndResource(t.Context(), g.ID, notes, "test"), nil)
		lose(0)
		got := f.read(t, g.ID)
		if got.State != storage.GrantCode || !slices.Equal(got.Resources, []string{tasks, files}) || got.Audience != nil {
			t.Errorf("lost %s: the grant is %s for %v, recorded for %v", what, got.State, got.Resources, got.Audience)
		}
		_, err := f.Redeem(t.Context(), g, f.life(), notes)
		wantError(t, "Redeem of what was read before", err, storage.ErrConflict)
		_, err = f.Redeem(t.Context(), got, f.life(), tasks)
		wantError(t, "Redeem", err, nil)
	}
}

// raceEndResource: while a client rotates, two of three resources end, and on another grant the
// whole family. In whatever order they win, what was reported is on record at the end.
func raceEndResource(t *testing.T, f *fixture) {
	for _, revoke := range []bool{false, true} {
		g, err := f.Redeem(t.Context(), f.several(t), f.life(), notes)
		wantError(t, "Redeem", err, nil)
		errs := together(runners, func(i int) error {
			switch {
			case i == 0 && revoke:
				return f.Revoke(t.Context(), g.ID, "race")
			case i%3 == 0:
				return f.EndResource(t.Context(), g.ID, notes, "race")
			case i%3 == 1:
				return f.EndResource(t.Context(), g.ID, files, "race")
			}
			next := g
			for range 8 {
				var err error
				if next, err = f.Rotate(t.Context(), next, f.life()); err != nil && !errors.Is(err, storage.ErrConflict) {
					return err
				}
				runtime.Gosched()
			}
			return nil
		})
		wantError(t, "rotating and ending", errors.Join(errs...), nil)
		if revoke {
			f.wantRevoked(t, g)
			continue
		}
		got := f.read(t, g.ID)
		if got.State != storage.GrantActive || !slices.Equal(got.Resources, []string{tasks}) || !slices.Equal(got.Access.Resources(), []string{tasks}) {
			t.Errorf("the grant is %s for %v and %v; want active, tasks", got.State, got.Resources, got.Access)
		}
		_, err = f.Rotate(t.Context(), g, f.life())
		wantError(t, "Rotate of what was read before", err, storage.ErrConflict)
	}
}
