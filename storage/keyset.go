package storage

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

const (
	kindKeySet = "keyset"
	keySetID   = "signing"
)

// KeySet is the signing keys of the issuer, shared by all its processes: one record.
type KeySet struct {
	Keys []SigningKey `json:"keys"`

	version  Version
	switched time.Time // when the switch to sealed records was moved
}

// storedKeySet is the record: the keys, and the switch. It has no keys where people or clients
// were stored before the first key.
type storedKeySet struct {
	KeySet
	Records  Form      `json:"records,omitempty"`
	Switched time.Time `json:"switched,omitzero"`
}

// SigningKey is one key of a [KeySet]. Package authz/internal/keyring decides on its state.
type SigningKey struct {
	ID        string          `json:"kid"` // RFC 7638 thumbprint
	Algorithm string          `json:"alg"`
	Public    json.RawMessage `json:"public"` // JWK
	// Private is the JWK, sealed under the key's id. A retired key has none.
	Private Sealed   `json:"private,omitempty"`
	State   KeyState `json:"state"`
	// Created is when the key was made and became pending, Activated when it began to sign,
	// Retired when another key took its place.
	Created   time.Time `json:"created"`
	Activated time.Time `json:"activated,omitzero"`
	Retired   time.Time `json:"retired,omitzero"`
}

// KeyState is the state of a signing key: pending, active, retired. A key that is destroyed is no
// longer in the set.
type KeyState string

const (
	// KeyPending is published and does not sign yet.
	KeyPending KeyState = "pending"
	// KeyActive signs. One key of a set is active.
	KeyActive KeyState = "active"
	// KeyRetired does not sign any more; its signatures are still accepted.
	KeyRetired KeyState = "retired"
)

// SealKey seals the private part of a signing key.
func (s *Store) SealKey(kid string, private []byte) (Sealed, error) {
	return s.Seal(kindKeySet, kid, private)
}

// OpenKey opens what [Store.SealKey] sealed.
func (s *Store) OpenKey(kid string, sealed Sealed) ([]byte, error) {
	return s.Open(kindKeySet, kid, sealed)
}

// KeySet returns the key set, or [ErrNotFound] if there never was one. If there was one and it is
// gone, the error is [ErrForged].
func (s *Store) KeySet(ctx context.Context) (KeySet, error) {
	set, _, err := s.keySet(ctx)
	switch {
	case err != nil:
		return KeySet{}, err
	case len(set.Keys) == 0 && s.forms.keys.Load():
		return KeySet{}, s.forged(kindKeySet, keySetID, errors.New("its keys are gone"))
	case len(set.Keys) == 0:
		return KeySet{}, ErrNotFound
	}
	s.forms.keys.Store(true)
	return set, nil
}

// keySet reads the record of the key set, and the form of records in it.
func (s *Store) keySet(ctx context.Context) (KeySet, Item, error) {
	item, err := s.get(ctx, kindKeySet, keySetID)
	if errors.Is(err, ErrNotFound) {
		item, err = s.missingKeySet(ctx)
	}
	if err == nil {
		err = s.lookForSealed(ctx, item)
	}
	if err != nil {
		return KeySet{}, Item{}, err
	}
	set, err := s.decodeKeySet(item)
	return set, item, err
}

// lookForSealed looks for sealed records when the key set is not sealed: then it is not the key
// set that they were written under.
func (s *Store) lookForSealed(ctx context.Context, item Item) error {
	if !s.seals(kindKeySet) || len(item.Data) == 0 || item.Data[0] != plainForm || s.forms.load() != formUnknown {
		return nil
	}
	found, err := s.evidence(ctx)
	if found > formPlain {
		s.forms.raise(formSealing)
	}
	return err
}

func (s *Store) decodeKeySet(item Item) (KeySet, error) {
	var stored storedKeySet
	if err := s.decode(kindKeySet, keySetID, item, &stored); err != nil {
		return KeySet{}, err
	}
	if s.seals(kindKeySet) {
		f := formPlain
		if item.Data[0] == sealedForm {
			f = formOf(stored.Records)
		}
		s.noteForm(f)
	}
	set := stored.KeySet
	set.version, set.switched = item.Version, stored.Switched
	for i := range set.Keys {
		set.Keys[i].fillIn()
	}
	return set, nil
}

// fillIn completes a key that was stored before keys had states: it was the only key, and it
// signed.
func (k *SigningKey) fillIn() {
	if k.State == "" {
		k.State, k.Activated = KeyActive, k.Created
	}
}

// SwapKeySet replaces the key set that was read before, or creates the first one if set was not
// read. [ErrConflict] means that another process was first.
func (s *Store) SwapKeySet(ctx context.Context, set KeySet) error {
	f, err := s.formToWrite(ctx, kindKeySet)
	if err != nil {
		return err
	}
	err = s.swapKeySet(ctx, set, f)
	if !errors.Is(err, ErrConflict) || set.version != (Version{}) || s.forms.keys.Load() {
		return err
	}
	there, _, readErr := s.keySet(ctx)
	if readErr != nil || len(there.Keys) > 0 {
		return err
	}
	set.version, set.switched = there.version, there.switched // a set without keys does not count as one
	return s.swapKeySet(ctx, set, s.forms.load())
}

// swapKeySet is SwapKeySet that sets the switch too.
func (s *Store) swapKeySet(ctx context.Context, set KeySet, f form) error {
	stored := storedKeySet{KeySet: set, Switched: set.switched}
	if f > formPlain {
		stored.Records = formNames[f]
	}
	body, err := encode(stored)
	if err != nil {
		return err
	}
	_, err = s.writeBody(ctx, record{kind: kindKeySet, id: keySetID}, f, body, Unchanged(set.version))
	if err != nil {
		return err
	}
	if s.seals(kindKeySet) {
		s.noteForm(f)
	}
	s.forms.keys.Store(s.forms.keys.Load() || len(set.Keys) > 0)
	return nil
}
