package authz

import (
	"context"
	"crypto/rand"
	"sync"
	"time"

	"gatehouse.example/authz/internal/keyring"
	"gatehouse.example/storage"
)

// longestTokenLife is the most that AccessTokenTTL can be, and so what any process of
// the issuer may have signed lately, whatever its setting is or was.
const longestTokenLife = time.Hour

func keysOf(cfg Config) keyring.Config {
	return keyring.Config{
		Store: cfg.Store, Issuer: cfg.Issuer, Algorithm: cfg.SigningAlgorithm,
		CacheTime: cfg.KeyCache, TokenLife: max(cfg.AccessTokenTTL, longestTokenLife), RotateEvery: cfg.KeyRotation,
		Logger: cfg.Logger, Now: cfg.Now, Rand: cfg.Rand,
	}
}

// Run does the work that no request waits for, until ctx ends: it follows the signing
// keys in the store and rotates them, seals records under the first master key, records
// the last use of clients, keeps lists short and looks whether there is a way to the public
// web. Any number of processes with one store
// may run.
//
// A server that never runs signs and checks with the keys in the store too: it reads
// them when it starts, and again when they are used and are older than KeyCache. It
// rotates nothing.
func (s *Server) Run(ctx context.Context) error {
	var work sync.WaitGroup
	work.Go(func() { s.chores.run(ctx) })
	work.Go(func() { s.chores.reseal(ctx) })
	work.Go(func() { s.chores.seal(ctx) })
	work.Go(func() { s.chores.reap(ctx) })
	work.Go(func() { s.egress.run(ctx) })
	defer work.Wait()
	return s.keys.Run(ctx)
}

// RotateSigningKey makes the next signing key and returns it. It is pending: a server
// that runs activates it when it has been published for twice the time that others may
// keep the keys. With now it is active at once, and resources that do not know it yet
// may refuse its tokens until they fetch the keys again. If a key is pending already, it
// is the next one. The key has the algorithm of the active one if algorithm is empty.
//
// The store is opened with the issuer and the master keys of the server.
func RotateSigningKey(ctx context.Context, store *storage.Store, algorithm string, now bool) (storage.SigningKey, error) {
	return keyring.Rotate(ctx, keysOfVerb(store, algorithm), now)
}

// RevokeSigningKey destroys a signing key and returns the one that signs now, which is
// new if the active key was revoked; its algorithm is that of the active one before if
// algorithm is empty. Servers refuse what the revoked key signed from their next reading
// on, resources when their copy of the keys has ended. An error wraps
// [storage.ErrNotFound] if there is no such key.
func RevokeSigningKey(ctx context.Context, store *storage.Store, algorithm, kid string) (storage.SigningKey, error) {
	return keyring.Revoke(ctx, keysOfVerb(store, algorithm), kid)
}

func keysOfVerb(store *storage.Store, algorithm string) keyring.Config {
	return keyring.Config{Store: store, Algorithm: algorithm, Now: time.Now, Rand: rand.Reader}
}
