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
	Public    json.RawMessage `json:"public"`  // JWK
	Private   Sealed          `json:"private"` // JWK, sealed under the key's id
	Created   time.Time       `json:"created"`
}

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
	return set, nil
}

// SwapKeySet replaces the key set that was read before; a set that was never read
// replaces nothing. [ErrConflict] means that another process was first.
func (s *Store) SwapKeySet(ctx context.Context, set KeySet) error {
	_, err := s.write(ctx, kindKeySet, keySetID, set, Unchanged(set.version), time.Time{})
	return err
}
