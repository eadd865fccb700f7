package authz

import (
	"context"
	"sync"
	"time"

	"gatehouse.example/authz/internal/keyring"
)

// longestTokenLife is the greatest AccessTokenTTL. Any process of the issuer may recently
// have signed tokens with that lifetime, whatever its setting is or was.
const longestTokenLife = time.Hour

func keysOf(cfg Config, changed func(kid, state string)) keyring.Config {
	return keyring.Config{
		Store: cfg.Store, Issuer: cfg.Issuer, Algorithm: cfg.SigningAlgorithm,
		CacheTime: cfg.KeyCache, TokenLife: max(cfg.AccessTokenTTL, longestTokenLife), RotateEvery: cfg.KeyRotation,
		Logger: cfg.Logger, Now: cfg.Now, Rand: cfg.Rand, Changed: changed,
	}
}

// Run does the background work of the server until ctx ends: it rereads and rotates the
// signing keys, looks for changed resources in the store, seals records under the first master
// key, records the last use of clients, keeps lists short, removes idle clients, checks for
// access to the public web, and asks providers whether people may still sign in. It goes on
// through [Server.Reload]. Any number of processes with one store may call Run.
//
// A server without Run still signs and verifies with the keys in the store: it reads them
// when it starts, and again when they are used and are older than KeyCache. It does not
// rotate them. Resources it reads when a request needs them and they are older than five
// seconds.
func (s *Server) Run(ctx context.Context) error {
	var work sync.WaitGroup
	work.Go(func() { s.chores.run(ctx) })
	work.Go(func() { s.watchResources(ctx) })
	work.Go(func() { s.chores.reseal(ctx) })
	work.Go(func() { s.chores.seal(ctx) })
	work.Go(func() { s.chores.reap(ctx) })
	work.Go(func() { s.egressRun(ctx) })
	work.Go(func() { s.recheckRun(ctx) })
	if s.cfg.Observe != nil {
		work.Go(func() { s.census.run(ctx) })
	}
	defer work.Wait()
	return s.keys.Run(ctx)
}
