package keyring_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse.example/authz/internal/keyring"
	"gatehouse.example/storage"
)

// TestAmendRefuses: Rotate and Revoke refuse when the servers could not open the new key.
func TestAmendRefuses(t *testing.T) {
	t.Parallel()
	ctx, backend := context.Background(), newBackend(t)
	ours := newStore(t, backend, storage.Options{Issuer: issuer, MasterKeys: [][]byte{masterKey}})
	if _, err := keyring.Rotate(ctx, config(ours, ""), false); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("no keys yet: %v", err)
	}
	open(t, config(ours, "EdDSA"))
	kid := states(t, ours)[storage.KeyActive][0].ID
	for name, o := range map[string]storage.Options{
		"another master key": {Issuer: issuer, MasterKeys: [][]byte{make([]byte, 32)}},
		"another issuer":     {Issuer: issuer + "/tenant", MasterKeys: [][]byte{masterKey}},
		"no master key":      {Issuer: issuer},
	} {
		store := newStore(t, backend, o)
		if _, err := keyring.Rotate(ctx, config(store, ""), true); err == nil {
			t.Errorf("rotate with %s", name)
		}
		if _, err := keyring.Revoke(ctx, config(store, ""), kid); err == nil {
			t.Errorf("revoke with %s", name)
		}
	}
	if _, err := keyring.Rotate(ctx, config(ours, "HS256"), false); err == nil {
		t.Error("rotate to HS256")
	}
	if by := states(t, ours); by[storage.KeyActive][0].ID != kid || len(by[storage.KeyPending]) != 0 {
		t.Error("something changed")
	}
	for _, step := range []struct{ algorithm, want string }{{"", "EdDSA"}, {"ES256", "ES256"}, {"", "ES256"}} {
		next, err := keyring.Rotate(ctx, config(ours, step.algorithm), true)
		if err != nil || next.Algorithm != step.want {
			t.Errorf("%q: %s, %v", step.algorithm, next.Algorithm, err)
		}
	}
}

// TestAmendRefusesInAPlainStore: in a store from before there were seals the set can be read under any
// master key. Rotate and Revoke refuse it all the same when the servers could not open the new key.
func TestAmendRefusesInAPlainStore(t *testing.T) {
	t.Parallel()
	ctx, backend := t.Context(), newBackend(t)
	if err := newStore(t, backend, storage.Options{Issuer: issuer}).SwapKeySet(ctx, storage.KeySet{}); err != nil {
		t.Fatal(err)
	}
	ours := newStore(t, backend, storage.Options{Issuer: issuer, MasterKeys: [][]byte{masterKey}})
	open(t, config(ours, ""))
	kid := states(t, ours)[storage.KeyActive][0].ID
	theirs := newStore(t, backend, storage.Options{Issuer: issuer, MasterKeys: [][]byte{make([]byte, 32)}})
	if set, err := theirs.KeySet(ctx); err != nil || len(set.Keys) != 1 {
		t.Fatalf("%d keys, %v: this is no plain store", len(set.Keys), err)
	}
	if _, err := keyring.Rotate(ctx, config(theirs, ""), true); err == nil {
		t.Error("rotate with another master key")
	}
	if _, err := keyring.Revoke(ctx, config(theirs, ""), kid); err == nil {
		t.Error("revoke with another master key")
	}
	if by := states(t, ours); by[storage.KeyActive][0].ID != kid || len(by[storage.KeyPending]) != 0 {
		t.Error("something changed")
	}
}

// TestNothingToAmend: a rotation that finds the next key pending writes nothing.
func TestNothingToAmend(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		backend := newMemory()
		store := bubbleStore(t, backend)
		open(t, timed(store))
		var next [2]storage.SigningKey
		for i := range next {
			var err error
			if next[i], err = keyring.Rotate(t.Context(), timed(store), false); err != nil {
				t.Fatal(err)
			}
		}
		if next[0].ID != next[1].ID || backend.swaps != 2 {
			t.Errorf("%s, then %s, in %d writes", next[0].ID, next[1].ID, backend.swaps)
		}
	})
}

// TestDamagedStates: a set with impossible states is refused at the start, and does not
// replace the known keys of a running ring.
func TestDamagedStates(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func([]storage.SigningKey){
		"two active keys":            func(k []storage.SigningKey) { k[1].State = storage.KeyActive },
		"no active key":              func(k []storage.SigningKey) { k[0].State = storage.KeyPending },
		"all retired":                func(k []storage.SigningKey) { k[0].State, k[1].State = storage.KeyRetired, storage.KeyRetired },
		"a state of the future":      func(k []storage.SigningKey) { k[1].State = "frozen" },
		"a pending key without core": func(k []storage.SigningKey) { k[1].Private = nil },
	} {
		synctest.Test(t, func(t *testing.T) {
			store := bubbleStore(t, newMemory())
			ring := open(t, timed(store))
			defer run(t, ring)()
			if _, err := keyring.Rotate(t.Context(), timed(store), false); err != nil {
				t.Fatal(err)
			}
			set, err := store.KeySet(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			damage(set.Keys)
			if err := store.SwapKeySet(t.Context(), set); err != nil {
				t.Fatal(err)
			}
			if _, err := keyring.Open(t.Context(), timed(store)); !errors.Is(err, storage.ErrRecord) {
				t.Errorf("%s: %v", name, err)
			}
			time.Sleep(cacheTime)
			if _, err := ring.Verify(tokenFor(t, ring, time.Minute)); err != nil {
				t.Errorf("%s: the running ring: %v", name, err)
			}
		})
	}
}

// TestStatelessSet: a set that was stored by a version without key states is accepted.
func TestStatelessSet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := bubbleStore(t, newMemory())
		open(t, timed(store))
		set, err := store.KeySet(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		old := set.Keys[0].ID
		set.Keys[0].State, set.Keys[0].Activated = "", time.Time{}
		if err := store.SwapKeySet(t.Context(), set); err != nil {
			t.Fatal(err)
		}
		ring := open(t, timed(store))
		defer run(t, ring)()
		token := tokenFor(t, ring, tokenLife)
		if kidOf(t, token) != old {
			t.Error("another key signs")
		}
		time.Sleep(rotateEvery + cacheTime)
		if by := states(t, store); by[storage.KeyActive][0].ID == old || by[storage.KeyRetired][0].ID != old {
			t.Errorf("it does not rotate: %v", by)
		}
	})
}

// TestDamagedKeySet: a manipulated record is refused at the start, not at the first
// signature.
func TestDamagedKeySet(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for name, damage := range map[string]func(set *storage.KeySet, other storage.KeySet){
		"no keys":                    func(s *storage.KeySet, _ storage.KeySet) { s.Keys = nil },
		"the public key of another":  func(s *storage.KeySet, o storage.KeySet) { s.Keys[0].Public = o.Keys[0].Public },
		"the private key of another": func(s *storage.KeySet, o storage.KeySet) { s.Keys[0].Private = o.Keys[0].Private },
		"both, under the old name": func(s *storage.KeySet, o storage.KeySet) {
			s.Keys[0].Public, s.Keys[0].Private = o.Keys[0].Public, o.Keys[0].Private
		},
		"another name":        func(s *storage.KeySet, _ storage.KeySet) { s.Keys[0].ID = "other" },
		"no public key":       func(s *storage.KeySet, _ storage.KeySet) { s.Keys[0].Public = []byte(`{}`) },
		"no private key":      func(s *storage.KeySet, _ storage.KeySet) { s.Keys[0].Private = nil },
		"a flipped bit":       func(s *storage.KeySet, _ storage.KeySet) { s.Keys[0].Private[40] ^= 1 },
		"a private key, open": func(s *storage.KeySet, _ storage.KeySet) { s.Keys[0].Public = []byte(privateJWK) },
	} {
		store := newEmptyStore(t)
		open(t, config(store, ""))
		otherStore := newEmptyStore(t)
		open(t, config(otherStore, ""))
		set, err := store.KeySet(ctx)
		if err != nil {
			t.Fatal(err)
		}
		other, err := otherStore.KeySet(ctx)
		if err != nil {
			t.Fatal(err)
		}
		damage(&set, other)
		if err := store.SwapKeySet(ctx, set); err != nil {
			t.Fatal(err)
		}
		if _, err := keyring.Open(ctx, config(store, "")); !errors.Is(err, storage.ErrRecord) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestKeyOfAnotherKind: a set whose parts belong together by their names is refused if the published part
// is the private key, which everybody could read then, and if the sealed part is another key, whose tokens
// nobody could verify.
func TestKeyOfAnotherKind(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	other := newEmptyStore(t)
	open(t, config(other, ""))
	private := func(store *storage.Store) (storage.KeySet, []byte) {
		set, err := store.KeySet(ctx)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := store.OpenKey(set.Keys[0].ID, set.Keys[0].Private)
		if err != nil {
			t.Fatal(err)
		}
		return set, raw
	}
	_, foreign := private(other)
	for name, damage := range map[string]func(store *storage.Store, key *storage.SigningKey, own []byte) error{
		"its private key, open": func(_ *storage.Store, key *storage.SigningKey, own []byte) error {
			key.Public = own
			return nil
		},
		"another private key, sealed for this one": func(store *storage.Store, key *storage.SigningKey, _ []byte) (err error) {
			key.Private, err = store.SealKey(key.ID, foreign)
			return err
		},
	} {
		store := newEmptyStore(t)
		open(t, config(store, ""))
		set, own := private(store)
		if err := damage(store, &set.Keys[0], own); err != nil {
			t.Fatal(err)
		}
		if err := store.SwapKeySet(ctx, set); err != nil {
			t.Fatal(err)
		}
		if _, err := keyring.Open(ctx, config(store, "")); !errors.Is(err, storage.ErrRecord) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
