package storage

import (
	"context"
	"encoding/json"
	"time"
)

const (
	kindKeySet = "keyset"
	keySetID   = "signing"
)

// KeySet is the signing keys of the issuer, shared by all its processes: one record.
type KeySet struct {
	Keys []SigningKey `json:"keys"`

	version Version
}

// SigningKey is one key of a [KeySet]. Its life is decided by authz/internal/keyring.
type SigningKey struct {
	ID        string          `json:"kid"` // RFC 7638 thumbprint
	Algorithm string          `json:"alg"`
	Public    json.RawMessage `json:"public"` // JWK
	// Private is the JWK, sealed under the key's id. A retired key has none.
	Private Sealed   `json:"private,omitempty"`
	State   KeyState `json:"state"`
	// Created is when the key was made and became pending, Activated when it became
	// the one that signs, Retired when another took its place.
	Created   time.Time `json:"created"`
	Activated time.Time `json:"activated,omitzero"`
	Retired   time.Time `json:"retired,omitzero"`
}

// KeyState is where a signing key is in its life: pending, active, retired. A key that
// is destroyed is no longer in the set.
type KeyState string

const (
	// KeyPending is published and does not sign yet.
	KeyPending KeyState = "pending"
	// KeyActive signs. One key of a set is active.
	KeyActive KeyState = "active"
	// KeyRetired signs no more; what it signed is still accepted.
	KeyRetired KeyState = "retired"
)

// SealKey and OpenKey seal and open the private part of a signing key.
func (s *Store) SealKey(kid string, private []byte) (Sealed, error) {
	return s.Seal(kindKeySet, kid, private)
}

// OpenKey opens what [Store.SealKey] sealed.
func (s *Store) OpenKey(kid string, sealed Sealed) ([]byte, error) {
	return s.Open(kindKeySet, kid, sealed)
}

// KeySet reads the key set, or returns [ErrNotFound].
func (s *Store) KeySet(ctx context.Context) (KeySet, error) {
	var set KeySet
	version, err := s.read(ctx, kindKeySet, keySetID, &set)
	if err != nil {
		return KeySet{}, err
	}
	set.version = version
	for i := range set.Keys {
		set.Keys[i].fillIn()
	}
	return set, nil
}

// fillIn completes a key that was stored before keys had states: the one key that
// there was, and it signed.
func (k *SigningKey) fillIn() {
	if k.State == "" {
		k.State, k.Activated = KeyActive, k.Created
	}
}

// SwapKeySet replaces the key set that was read before; a set that was never read
// replaces nothing. [ErrConflict] means that another process was first.
func (s *Store) SwapKeySet(ctx context.Context, set KeySet) error {
	_, err := s.write(ctx, record{kind: kindKeySet, id: keySetID, value: set}, Unchanged(set.version))
	return err
}
