package admin

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"gatehouse.example/authz/internal/keyring"
	"gatehouse.example/storage"
)

// Key is a signing key as it is shown: without its parts.
type Key struct {
	ID        string    `json:"kid"`
	State     string    `json:"state"`
	Algorithm string    `json:"algorithm"`
	Created   time.Time `json:"created"`
	Activated time.Time `json:"activated,omitzero"`
	Retired   time.Time `json:"retired,omitzero"`
}

// KeyOf returns what is shown of a signing key.
func KeyOf(k storage.SigningKey) Key {
	return Key{
		ID: k.ID, State: string(k.State), Algorithm: k.Algorithm,
		Created: k.Created.UTC(), Activated: k.Activated.UTC(), Retired: k.Retired.UTC(),
	}
}

// Keys lists the signing keys, the active one first. A server that never started has none.
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

// RotateSigningKey makes the next signing key and returns it. It is pending: a server
// that runs activates it when it has been published for twice the time that others may
// keep the keys. With now it is active at once, and resources that do not know it yet
// may refuse its tokens until they fetch the keys again. If a key is pending already, it
// is the next one. The key has the algorithm of the active one if algorithm is empty.
//
// The store is opened with the issuer and the master keys of the server.
func RotateSigningKey(ctx context.Context, store *storage.Store, algorithm string, now bool) (storage.SigningKey, error) {
	return keyring.Rotate(ctx, keysOf(store, algorithm), now)
}

// RevokeSigningKey destroys a signing key and returns the one that signs now, which is
// new if the active key was revoked; its algorithm is that of the active one before if
// algorithm is empty. Servers refuse what the revoked key signed from their next reading
// on, resources when their copy of the keys has ended. An error wraps
// [storage.ErrNotFound] if there is no such key.
func RevokeSigningKey(ctx context.Context, store *storage.Store, algorithm, kid string) (storage.SigningKey, error) {
	return keyring.Revoke(ctx, keysOf(store, algorithm), kid)
}

func keysOf(store *storage.Store, algorithm string) keyring.Config {
	return keyring.Config{Store: store, Algorithm: algorithm, Now: time.Now, Rand: rand.Reader}
}
