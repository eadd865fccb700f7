package transfer_test

import (
	"errors"
	"testing"
	"time"

	"gatehouse.example/storage"
	"gatehouse.example/storage/transfer"
)

// TestFamiliesGoOn: at the target the refresh token of a family rotates and an older one is known, a
// revoked family stays revoked, a spent code stays spent, and a code that was not redeemed gives
// nothing, in both directions.
func TestFamiliesGoOn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ from, to storage.IndexLister }{
		"to Redis":  {openFile(t, now), openRedis(t, now)},
		"to a file": {openRedis(t, now), openFile(t, now)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source := newStore(t, c.from, records())
			life := storage.Lifetime{Expires: now().Add(24 * time.Hour), IdleExpires: now().Add(24 * time.Hour), AccessUntil: now().Add(time.Hour)}
			active, pending, revoked := newGrant(t, source), newGrant(t, source), newGrant(t, source)
			active = redeem(t, source, active, life)
			active, err := source.Rotate(t.Context(), active, life)
			if err != nil {
				t.Fatal(err)
			}
			old, current := token(t, source, active, 0), token(t, source, active, 1)
			if err := source.Revoke(t.Context(), redeem(t, source, revoked, life).ID, "asked to"); err != nil {
				t.Fatal(err)
			}
			done := mustCopy(t, between(c.from, c.to))
			if done.Codes != 1 || done.Records["grant"].Count != 2 {
				t.Errorf("%+v", done)
			}

			target := newStore(t, c.to, records())
			g, err := target.Grant(t.Context(), active.ID)
			if err != nil {
				t.Fatal(err)
			}
			for token, generation := range map[string]uint32{old: 0, current: 1} {
				parsed, _ := storage.ParseRefreshToken(token)
				if genuine, err := target.Genuine(g, parsed); !genuine || err != nil || parsed.Generation != generation || g.Generation != 1 {
					t.Errorf("generation %d of a grant in generation %d is genuine: %t, %v", parsed.Generation, g.Generation, genuine, err)
				}
			}
			if g, err = target.Rotate(t.Context(), g, life); err != nil || g.Generation != 2 {
				t.Errorf("the rotation at the target: generation %d, %v", g.Generation, err)
			}
			if g, err := target.Grant(t.Context(), revoked.ID); err != nil || g.State != storage.GrantRevoked {
				t.Errorf("the revoked grant is %s, %v", g.State, err)
			}
			if _, err := target.Redeem(t.Context(), g, life); !errors.Is(err, storage.ErrConflict) {
				t.Errorf("a spent code: %v", err)
			}
			if _, err := target.Grant(t.Context(), pending.ID); !errors.Is(err, storage.ErrNotFound) {
				t.Errorf("the code that was not redeemed: %v", err)
			}
			listed := 0
			for g, err := range target.UserGrants(t.Context(), "1") {
				if listed++; err != nil || g.ID == pending.ID {
					t.Errorf("%s is listed, %v", g.ID, err)
				}
			}
			if listed != 2 {
				t.Errorf("%d grants of the person are listed", listed)
			}
		})
	}
}

func newGrant(t *testing.T, s *storage.Store) storage.Grant {
	t.Helper()
	return newGrantOf(t, s, "1")
}

func newGrantOf(t *testing.T, s *storage.Store, subject string) storage.Grant {
	t.Helper()
	g, _, err := s.PrepareGrant(storage.NewGrant{ClientID: "client", Subject: subject, Refreshable: true, CodeTTL: time.Minute})
	if err == nil {
		err = s.CreateGrant(t.Context(), g)
	}
	if err == nil {
		g, err = s.Grant(t.Context(), g.ID)
	}
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func redeem(t *testing.T, s *storage.Store, g storage.Grant, life storage.Lifetime) storage.Grant {
	t.Helper()
	g, err := s.Redeem(t.Context(), g, life)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func token(t *testing.T, s *storage.Store, g storage.Grant, generation uint32) string {
	t.Helper()
	token, err := s.RefreshTokenOf(g, generation)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// TestMarksOfReleases: a store that was marked by an earlier program is refused by every later one.
func TestMarksOfReleases(t *testing.T) {
	t.Parallel()
	for data, want := range map[string]transfer.MarkedError{
		`{"copy":"0f","role":"source","other":"redis://127.0.0.1:6379","since":"2026-11-23T12:00:00Z"}`:             {Other: "redis://127.0.0.1:6379"},
		`{"copy":"0f","role":"source","other":"redis://127.0.0.1:6379","since":"2026-11-23T12:00:00Z","done":true}`: {Other: "redis://127.0.0.1:6379", Done: true},
		`{"copy":"0f","role":"target","other":"file:gatehouse.db","since":"2026-11-23T12:00:00Z"}`:                  {Other: "file:gatehouse.db", Target: true},
	} {
		b := filled(t)
		if _, err := b.Put(t.Context(), storage.Put{Key: markKey, Data: []byte(data), Operation: storage.Version{1}}); err != nil {
			t.Fatal(err)
		}
		want.Since = time.Date(2026, time.November, 23, 12, 0, 0, 0, time.UTC)
		var got *transfer.MarkedError
		if _, err := transfer.Guard(t.Context(), b); !errors.As(err, &got) || *got != want {
			t.Errorf("%s: %v", data, err)
		}
	}
}
