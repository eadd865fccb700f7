package authz

import (
	"context"
	"sync"
	"time"

	"gatehouse.example/authz/internal/keyring"
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
