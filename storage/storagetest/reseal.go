package storagetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"gatehouse.example/storage"
)

// sealed is a store with records under one master key, the old one, that can open records under a
// new one too, and another that seals under the new key and opens under both.
type sealed struct {
	*fixture
	subject string
	both    *storage.Store // opened with the new key and the old one
	fresh   *storage.Store // opened with the new key alone
	old     *storage.Store // opened with the old key alone
}

// sealed stores two signing keys with private parts and one without, and a person.
func (f *fixture) sealed(t *testing.T) sealed {
	t.Helper()
	key := masterKey()
	s := sealed{fixture: f, subject: unique("subject"), both: f.store(t, issuer, key, f.keys[0]), fresh: f.store(t, issuer, key), old: f.Store}
	f.Store = f.store(t, issuer, f.keys[0], key)
	wantError(t, "CreateUser", f.CreateUser(t.Context(), storage.User{Name: "ann", Subject: s.subject}), nil)
	wantError(t, "SwapKeySet", f.SwapKeySet(t.Context(), storage.KeySet{Keys: []storage.SigningKey{
		f.signingKey(t, "k1"), {ID: "retired", Public: json.RawMessage("{}"), State: storage.KeyRetired}, f.signingKey(t, "k2"),
	}}), nil)
	return s
}

// testResealFactor: afterwards the new master key alone opens the secret of a second factor.
func testResealFactor(t *testing.T, f *fixture) {
	s := f.sealed(t)
	u, err := f.User(t.Context(), "ann")
	wantError(t, "User", err, nil)
	_, err = f.OpenFactor(u)
	wantError(t, "OpenFactor without one", err, storage.ErrNotFound)
	secret, err := f.SealFactor("ann", []byte("shared"))
	wantError(t, "SealFactor", err, nil)
	u.SecondFactor = &storage.SecondFactor{Secret: secret, LastStep: 7}
	wantError(t, "UpdateUser", f.UpdateUser(t.Context(), u), nil)
	s.reseal(t)
	u, err = s.fresh.User(t.Context(), "ann")
	wantError(t, "User with the new key alone", err, nil)
	if opened, err := s.fresh.OpenFactor(u); err != nil || string(opened) != "shared" || u.SecondFactor.LastStep != 7 {
		t.Errorf("the second factor is %q, %v, %+v", opened, err, u.SecondFactor)
	}
	u.Name = "bob"
	_, err = s.fresh.OpenFactor(u)
	wantError(t, "OpenFactor of another person", err, storage.ErrRecord)
}

func (f *fixture) signingKey(t *testing.T, id string) storage.SigningKey {
	t.Helper()
	private, err := f.SealKey(id, []byte("private "+id))
	wantError(t, "SealKey", err, nil)
	return storage.SigningKey{ID: id, Algorithm: "ES256", Public: json.RawMessage("{}"), Private: private, State: storage.KeyActive, Created: f.clock.Now()}
}

// code stores a grant of the person whose code is not redeemed.
func (s sealed) code(t *testing.T) storage.Grant {
	t.Helper()
	g, _ := s.prepare(t, true)
	g.Subject = s.subject
	wantError(t, "CreateGrant", s.CreateGrant(t.Context(), g), nil)
	return s.read(t, g.ID)
}

func (s sealed) redeemed(t *testing.T) storage.Grant {
	t.Helper()
	g, err := s.Redeem(t.Context(), s.code(t), s.life())
	wantError(t, "Redeem", err, nil)
	return g
}

func (s sealed) reseal(t *testing.T) storage.Resealed {
	t.Helper()
	return resealed(t, s.both)
}

func resealed(t *testing.T, s *storage.Store) storage.Resealed {
	t.Helper()
	done, err := s.Reseal(t.Context(), nil)
	wantError(t, "Reseal", err, nil)
	return done
}

func wantResealed(t *testing.T, got, want storage.Resealed) {
	t.Helper()
	if got != want {
		t.Errorf("resealing met %+v; want %+v", got, want)
	}
}

// wantFresh checks that the new key alone opens the seed of a grant, that nothing else of it
// changed except as given, and that its tokens are the same.
func (s sealed) wantFresh(t *testing.T, before storage.Grant) {
	t.Helper()
	after, err := s.fresh.Grant(t.Context(), before.ID)
	wantError(t, "Grant", err, nil)
	for generation := range uint32(3) {
		got, err := s.fresh.RefreshTokenOf(after, generation)
		wantError(t, "RefreshTokenOf with the new key alone", err, nil)
		if want := s.token(t, before, generation); got != want {
			t.Errorf("resealing changed the token of generation %d from %q to %q", generation, want, got)
		}
	}
	_, err = s.old.Grant(t.Context(), before.ID)
	wantError(t, "Grant with the old key alone", err, storage.ErrForged)
	_, err = s.old.RefreshTokenOf(after, 0)
	wantError(t, "RefreshTokenOf with the old key alone", err, storage.ErrRecord)
	after.Seed = before.Seed
	wantSame(t, "the grant but for its seal", after, before)
}

// wantFreshKeys checks that the new key alone opens the signing keys.
func (s sealed) wantFreshKeys(t *testing.T, ids ...string) {
	t.Helper()
	set, err := s.fresh.KeySet(t.Context())
	wantError(t, "KeySet", err, nil)
	var got []string
	for _, k := range set.Keys {
		got = append(got, k.ID)
		if k.State == storage.KeyRetired {
			continue
		}
		if private, err := s.fresh.OpenKey(k.ID, k.Private); err != nil || string(private) != "private "+k.ID {
			t.Errorf("the private part of %s is %q, %v", k.ID, private, err)
		}
	}
	slices.Sort(got)
	slices.Sort(ids)
	wantEntries(t, "the signing keys", got, ids...)
}

// testReseal: afterwards the new master key alone opens every record that has not ended, and
// nothing else has changed.
func testReseal(t *testing.T, f *fixture) {
	s := f.sealed(t)
	f.faults.SetLineage("one")
	code, active, revoked, gone := s.code(t), s.redeemed(t), s.redeemed(t), s.code(t)
	rotated, err := f.Rotate(t.Context(), s.redeemed(t), f.life())
	wantError(t, "Rotate", err, nil)
	wantError(t, "Revoke", f.Revoke(t.Context(), revoked.ID, "test"), nil)
	f.backend.remove(t, grantKey(gone.ID))
	f.faults.SetLineage("two")

	_, err = f.store(t, issuer).Reseal(t.Context(), nil)
	wantError(t, "Reseal without a master key", err, storage.ErrNoMasterKey)
	wantResealed(t, resealed(t, f.Store), storage.Resealed{Looked: 6})
	before := f.faults.Puts()
	heard := storage.Resealed{}
	done, err := s.both.Reseal(t.Context(), func(now storage.Resealed) {
		if now.Looked < heard.Looked || now.Sealed < heard.Sealed {
			t.Errorf("progress went from %+v to %+v", heard, now)
		}
		heard = now
	})
	wantError(t, "Reseal", err, nil)
	wantResealed(t, done, storage.Resealed{Looked: 6, Sealed: 6})
	wantResealed(t, heard, done)
	if n := f.faults.Puts() - before; n != 6 {
		t.Errorf("resealing a key set, a person and four grants wrote %d times", n)
	}
	for _, g := range []storage.Grant{code, active, rotated} {
		if s.wantFresh(t, g); f.read(t, g.ID).Lineage != "one" {
			t.Error("resealing counts as a rotation on another lineage")
		}
	}
	s.wantFreshKeys(t, "k1", "retired", "k2")
	f.wantRevoked(t, revoked)
	_, err = s.fresh.Grant(t.Context(), revoked.ID)
	wantError(t, "a revoked grant with the new key alone", err, nil)
	for _, written := range f.backend.writes()[len(f.backend.writes())-6:] {
		if strings.HasPrefix(written.Key, "gatehouse:grant:") && written.TTL <= 0 || written.TTL > 91*24*time.Hour {
			t.Errorf("resealed, a grant lives for %v", written.TTL)
		}
	}
	before = f.faults.Puts()
	wantResealed(t, s.reseal(t), storage.Resealed{Looked: 6})
	if n := f.faults.Puts() - before; n != 0 {
		t.Errorf("a second time, resealing wrote %d times", n)
	}

	f.faults.SetLineage("one")
	_, err = s.fresh.Redeem(t.Context(), f.read(t, code.ID), f.life())
	wantError(t, "Redeem of a code that was resealed", err, nil)
	_, err = s.fresh.Rotate(t.Context(), f.read(t, rotated.ID), f.life())
	wantError(t, "Rotate of a grant that was resealed", err, nil)
}

// testResealBetween: what other processes write between the read and the swap of resealing is
// kept, and is sealed under the new key too.
func testResealBetween(t *testing.T, f *fixture) {
	s := f.sealed(t)
	f.faults.beforePut(func() {
		set, err := f.KeySet(t.Context())
		wantError(t, "KeySet", err, nil)
		set.Keys = append(set.Keys, f.signingKey(t, "k3"))
		wantError(t, "SwapKeySet", f.SwapKeySet(t.Context(), set), nil)
	})
	wantResealed(t, s.reseal(t), storage.Resealed{Looked: 2, Sealed: 2})
	s.wantFreshKeys(t, "k1", "retired", "k2", "k3")

	for what, test := range map[string]struct {
		make   func(t *testing.T) storage.Grant
		change func(g storage.Grant) (storage.Grant, error)
		sealed int
	}{
		"Rotate": {s.redeemed, func(g storage.Grant) (storage.Grant, error) { return f.Rotate(t.Context(), g, f.life()) }, 1},
		"Redeem": {s.code, func(g storage.Grant) (storage.Grant, error) { return f.Redeem(t.Context(), g, f.life()) }, 1},
		"Revoke": {s.redeemed, func(g storage.Grant) (storage.Grant, error) {
			err := f.Revoke(t.Context(), g.ID, "test")
			return f.read(t, g.ID), err
		}, 1},
		"Reseal": {s.redeemed, func(g storage.Grant) (storage.Grant, error) {
			wantResealed(t, s.reseal(t), storage.Resealed{Looked: 3, Sealed: 1})
			return g, nil
		}, 0},
	} {
		g := test.make(t)
		f.faults.beforePut(func() {
			var err error
			g, err = test.change(g)
			wantError(t, what, err, nil)
		})
		wantResealed(t, s.reseal(t), storage.Resealed{Looked: 3, Sealed: test.sealed})
		if what == "Revoke" {
			f.wantRevoked(t, g)
		} else {
			s.wantFresh(t, g)
		}
		f.backend.remove(t, grantKey(g.ID))
	}
	g := s.redeemed(t)
	f.faults.beforePut(func() { f.backend.remove(t, grantKey(g.ID)) })
	wantResealed(t, s.reseal(t), storage.Resealed{Looked: 2})
	_, err := f.Grant(t.Context(), g.ID)
	wantError(t, "Grant that vanished while it was resealed", err, storage.ErrNotFound)

	// Conversely, resealing does not disturb other writes.
	code, active := s.code(t), s.redeemed(t)
	wantResealed(t, s.reseal(t), storage.Resealed{Looked: 4, Sealed: 2})
	_, err = f.Redeem(t.Context(), code, f.life())
	wantError(t, "Redeem of a code that was resealed meanwhile", err, nil)
	current, err := f.Rotate(t.Context(), active, f.life())
	wantError(t, "Rotate of a grant that was resealed meanwhile", err, nil)
	if current.Generation != 1 {
		t.Errorf("one rotation and one resealing made generation %d; want 1", current.Generation)
	}
	if got, err := s.fresh.RefreshTokenOf(f.read(t, current.ID), 1); err != nil || got != s.token(t, active, 1) {
		t.Errorf("afterwards the token is %q, %v; want %q", got, err, s.token(t, active, 1))
	}
	// A rotation keeps the seal of the seed, and seals the record.
	wantResealed(t, s.reseal(t), storage.Resealed{Looked: 4, Sealed: 2})
}

// testResealUnreadable: a record that no key opens, or that cannot be read, is counted and left
// as it is. It keeps no other record under the old key.
func testResealUnreadable(t *testing.T, f *fixture) {
	s := f.sealed(t)
	cut, newer, whole := s.redeemed(t), s.redeemed(t), s.redeemed(t)
	f.edit(t, grantKey(cut.ID), func(members map[string]any) { members["seed"] = []byte("no seal") })
	data := f.backend.item(t, grantKey(newer.ID)).Data
	f.backend.overwrite(t, grantKey(newer.ID), append([]byte{3}, data[1:]...))
	wantError(t, "CreateUser", f.CreateUser(t.Context(), storage.User{Name: "a", Subject: "s"}), nil)
	f.backend.overwrite(t, "gatehouse:user:a", []byte{3})
	set, err := f.KeySet(t.Context())
	wantError(t, "KeySet", err, nil)
	set.Keys[0].Private[20] ^= 1
	wantError(t, "SwapKeySet", f.SwapKeySet(t.Context(), set), nil)

	left := map[string]storage.Item{}
	for _, key := range []string{grantKey(newer.ID), "gatehouse:user:a"} {
		left[key] = f.backend.item(t, key)
	}
	stranger := f.store(t, issuer, masterKey())
	before := f.faults.Puts()
	_, err = stranger.Reseal(t.Context(), nil)
	wantError(t, "Reseal without the old key", err, storage.ErrForged)
	if n := f.faults.Puts() - before; n != 0 {
		t.Errorf("without the old key, resealing wrote %d times", n)
	}
	for _, sealed := range []int{4, 0} {
		wantResealed(t, s.reseal(t), storage.Resealed{Looked: 6, Sealed: sealed, Unreadable: 4})
	}
	for key, item := range left {
		f.wantUntouched(t, "what cannot be read", key, item)
	}
	s.wantFresh(t, whole)
	after, err := s.fresh.KeySet(t.Context())
	wantError(t, "KeySet", err, nil)
	wantSame(t, "a signing key that cannot be opened", after.Keys[0], set.Keys[0])
	if private, err := s.fresh.OpenKey("k2", after.Keys[2].Private); err != nil || string(private) != "private k2" {
		t.Errorf("the private part of k2 is %q, %v", private, err)
	}
	f.backend.overwrite(t, "gatehouse:keyset:signing", []byte{3})
	_, err = s.both.Reseal(t.Context(), nil)
	wantError(t, "Reseal without a readable key set", err, storage.ErrRecord)
	if got := f.backend.item(t, "gatehouse:keyset:signing"); fmt.Sprint(got.Data) != "[3]" {
		t.Error("a key set that cannot be read was overwritten")
	}
}

// testResealBroken: resealing that ends early can be repeated, and a lost write is sent again.
func testResealBroken(t *testing.T, f *fixture) {
	s := f.sealed(t)
	grants := []storage.Grant{s.redeemed(t), s.redeemed(t), s.code(t)}
	_, err := s.both.Reseal(cancelled(t), nil)
	wantUnavailable(t, "Reseal with a context that is over", err)
	s.wantNothingFresh(t, grants)

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done, err := s.both.Reseal(ctx, func(storage.Resealed) { cancel() })
	wantUnavailable(t, "Reseal that is cancelled", err)
	wantResealed(t, done, storage.Resealed{Looked: 2, Sealed: 2})
	done, err = s.both.Reseal(t.Context(), func(now storage.Resealed) {
		if now.Sealed == 1 {
			f.faults.SetDown(true)
		}
	})
	f.faults.SetDown(false)
	wantUnavailable(t, "Reseal while the store goes down", err)
	if done.Sealed != 1 {
		t.Errorf("before the store went down, resealing met %+v; want one sealed", done)
	}
	f.faults.LoseReplies(1)
	wantResealed(t, s.reseal(t), storage.Resealed{Looked: 5, Sealed: 2})
	for _, g := range grants {
		s.wantFresh(t, g)
	}
	s.wantFreshKeys(t, "k1", "retired", "k2")
}

// wantNothingFresh checks that the old key opens everything.
func (s sealed) wantNothingFresh(t *testing.T, grants []storage.Grant) {
	t.Helper()
	for _, g := range grants {
		got, err := s.old.Grant(t.Context(), g.ID)
		wantError(t, "Grant with the old key alone", err, nil)
		wantSame(t, "the grant", got, g)
		_, err = s.old.RefreshTokenOf(got, 0)
		wantError(t, "RefreshTokenOf with the old key alone", err, nil)
	}
}

// raceReseal: resealing beside rotations, redemptions, revocations and new signing keys loses
// none of them, and seals all their records.
func raceReseal(t *testing.T, f *fixture) {
	const each = 3
	s := newFixture(t, f.backend.Backend).sealed(t)
	var before, after [runners / 2]storage.Grant
	for i := range before {
		if before[i] = s.code(t); i%4 != 1 {
			var err error
			before[i], err = s.Redeem(t.Context(), before[i], s.life())
			wantError(t, "Redeem", err, nil)
		}
	}
	wantError(t, "racing", errors.Join(together(len(before), func(i int) (err error) {
		ctx := t.Context()
		switch i % 4 {
		case 0:
			_, err = s.both.Reseal(ctx, nil)
		case 1:
			after[i], err = persist(before[i], func(g storage.Grant) (storage.Grant, error) { return s.Redeem(ctx, g, s.life()) })
		case 2:
			after[i] = before[i]
			for range each {
				if after[i], err = persist(after[i], func(g storage.Grant) (storage.Grant, error) { return s.Rotate(ctx, g, s.life()) }); err != nil {
					return err
				}
			}
			err = s.addKey(ctx, name("k%02d", i))
		case 3:
			err = s.Revoke(ctx, before[i].ID, "race")
		}
		return err
	})...), nil)
	done := s.reseal(t)
	if done.Unreadable != 0 || done.Looked != 2+len(before) {
		t.Errorf("after the race, resealing met %+v", done)
	}
	for i := range before {
		switch i % 4 {
		case 1, 2:
			got := s.read(t, before[i].ID)
			if want := uint32(i % 4 / 2 * each); got.State != storage.GrantActive || got.Generation != want {
				t.Errorf("after the race a grant is %s, generation %d; want active, %d", got.State, got.Generation, want)
			}
			token, err := s.fresh.RefreshTokenOf(got, 7)
			if want := s.token(t, before[i], 7); err != nil || token != want {
				t.Errorf("after the race the token is %q, %v; want %q", token, err, want)
			}
		case 3:
			s.wantRevoked(t, before[i])
		}
	}
	s.wantFreshKeys(t, "k1", "retired", "k2", "k02", "k06", "k10", "k14")
}

// persist repeats a change that loses against resealing.
func persist(g storage.Grant, change func(storage.Grant) (storage.Grant, error)) (storage.Grant, error) {
	before := g
	for range enough {
		next, err := change(g)
		if !errors.Is(err, storage.ErrConflict) {
			return next, err
		}
		if g = next; g.State != before.State || g.Generation != before.Generation {
			return g, errors.New("somebody else changed the grant")
		}
	}
	return g, errors.New("no swap succeeds")
}

// addKey adds a signing key to the set.
func (s sealed) addKey(ctx context.Context, id string) error {
	private, err := s.SealKey(id, []byte("private "+id))
	if err != nil {
		return err
	}
	for range enough {
		set, err := s.KeySet(ctx)
		if err != nil {
			return err
		}
		set.Keys = append(set.Keys, storage.SigningKey{ID: id, Public: json.RawMessage("{}"), Private: private, State: storage.KeyPending})
		if err := s.SwapKeySet(ctx, set); !errors.Is(err, storage.ErrConflict) {
			return err
		}
	}
	return errors.New("no swap of the key set succeeds")
}
