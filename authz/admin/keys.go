package admin

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"gatehouse.example/authz/internal/keyring"
	"gatehouse.example/storage"
)

// Key is the view of a signing key, without its public and private parts.
type Key struct {
	ID        string    `json:"kid"`
	State     string    `json:"state"`
	Algorithm string    `json:"algorithm"`
	Created   time.Time `json:"created"`
	Activated time.Time `json:"activated,omitzero"`
	Retired   time.Time `json:"retired,omitzero"`
}

// KeyOf returns the view of a signing key.
func KeyOf(k storage.SigningKey) Key {
	return Key{
		ID: k.ID, State: string(k.State), Algorithm: k.Algorithm,
		Created: k.Created.UTC(), Activated: k.Activated.UTC(), Retired: k.Retired.UTC(),
	}
}

// Keys returns the signing keys, the active one first. The list is empty before the first
// start of a server.
func Keys(ctx context.Context, store *storage.Store) ([]Key, error) {
	set, err := store.KeySet(ctx)
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return nil, err
	}
	keys := make([]Key, 0, len(set.Keys))
	for _, key := range set.Keys {
		keys = append(keys, KeyOf(key))
	}
	return keys, nil
}

// RotateSigningKey makes the next signing key and returns it. The key is pending: a running
// server activates it when it has been published for twice the time for which caches may keep
// the keys. With now it is active at once, and resources that do not know it yet may refuse
// its tokens until they fetch the keys again. If there is a pending key already, that is the
// next one. An empty algorithm means that of the active key.
//
// The store must be opened with the issuer and the master keys of the server.
func RotateSigningKey(ctx context.Context, store *storage.Store, algorithm string, now bool) (storage.SigningKey, error) {
	return keyring.Rotate(ctx, keysOf(store, algorithm), now)
}

// RevokeSigningKey destroys a signing key and returns the active one. If the active key was
// revoked, that is a new key; an empty algorithm means that of the revoked one. Servers
// refuse tokens of the revoked key when they next read the keys, resources when their copy of
// the keys has expired. The error wraps [storage.ErrNotFound] if there is no such key.
func RevokeSigningKey(ctx context.Context, store *storage.Store, algorithm, kid string) (storage.SigningKey, error) {
	return keyring.Revoke(ctx, keysOf(store, algorithm), kid)
}

func keysOf(store *storage.Store, algorithm string) keyring.Config {
	return keyring.Config{Store: store, Algorithm: algorithm, Now: time.Now, Rand: rand.Reader}
}
