package keyring

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"gatehouse.example/storage"
)

// Run keeps the ring in step with the store until ctx ends: it reads the set five times
// in CacheTime, and takes the steps that are due. Any number of processes may run; each
// step is taken by the one whose swap comes first. Run returns when its work has ended.
//
// While the store is down, the keys that are known stay in use. That is safe, because a
// key is retired through the store: a process that cannot reach it may miss that another
// retired its key, and goes on signing with it. Such a token is good nevertheless. If
// the set was last read at L, the key was active at L and is kept for CacheTime +
// TokenLife + a minute after its retirement, which came after L. So a token that ends
// by L + CacheTime + TokenLife ends while its key is kept, and [Ring.Sign] signs no
// other. Tokens of five minutes are signed for an hour without a reading, tokens of one
// hour for five minutes. A key that was revoked is different: what a process signs with
// it until its next reading is refused by all others, which is what revoking is for.
//
// Without Run the ring reads the set again when somebody uses it and it is older than
// CacheTime, and never rotates.
func (r *Ring) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		if err := r.tend(ctx); err != nil && ctx.Err() == nil {
			r.stale(err)
		}
		timer.Reset(r.interval())
	}
}

// interval is a fifth of CacheTime, give or take a tenth of it, so that processes which
// started together do not stay together.
func (r *Ring) interval() time.Duration {
	every := r.cfg.CacheTime / 5
	var b [1]byte
	_, _ = io.ReadFull(r.cfg.Rand, b[:]) // without randomness there is no jitter
	return every + every*(time.Duration(b[0])-128)/1280
}

// tend reads the set and takes the steps that are due. Who loses the swap has nothing
// left to do but to read what the winner made of it.
func (r *Ring) tend(ctx context.Context) error {
	set, err := r.readOrCreate(ctx)
	if err != nil {
		return err
	}
	step := round{cfg: r.cfg, now: r.cfg.Now(), keys: set.Keys}
	if err := step.due(); err != nil || len(step.changes) == 0 {
		return err
	}
	set.Keys = step.keys
	err = r.cfg.Store.SwapKeySet(ctx, set)
	if err == nil {
		for _, c := range step.changes {
			r.cfg.Logger.Info("signing key", "kid", c.kid, "is", c.became)
		}
	}
	if err != nil && !errors.Is(err, storage.ErrConflict) {
		return err // it may have happened: the next reading tells
	}
	_, err = r.read(ctx)
	return err
}

// Rotate makes the next key and returns it: pending, to be activated by a running
// server when it has been published for long enough, or active if now is set. If a key
// is pending already, it is the next one. An empty cfg.Algorithm means that of the
// active key.
func Rotate(ctx context.Context, cfg Config, now bool) (storage.SigningKey, error) {
	keys, err := amend(ctx, cfg, func(r *round) error { return r.rotate(now) })
	if err != nil {
		return storage.SigningKey{}, fmt.Errorf("keyring: rotate: %w", err)
	}
	done := round{keys: keys}
	if now {
		return keys[done.find(storage.KeyActive)], nil
	}
	return keys[done.find(storage.KeyPending)], nil
}

// Revoke destroys a key at once and returns the one that signs now. A process accepts
// the revoked key until it reads the set again. An error wraps [storage.ErrNotFound] if
// there is no such key.
func Revoke(ctx context.Context, cfg Config, kid string) (storage.SigningKey, error) {
	keys, err := amend(ctx, cfg, func(r *round) error { return r.revoke(kid) })
	if err != nil {
		return storage.SigningKey{}, fmt.Errorf("keyring: revoke: %w", err)
	}
	done := round{keys: keys}
	return keys[done.find(storage.KeyActive)], nil
}

// amend changes the set from outside a server. It refuses when it cannot open the keys
// that are there: the servers could not open what it would seal.
func amend(ctx context.Context, cfg Config, change func(*round) error) ([]storage.SigningKey, error) {
	algorithm := cfg.Algorithm
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	for range 5 {
		set, err := cfg.Store.KeySet(ctx)
		if err != nil {
			return nil, err
		}
		now := cfg.Now()
		if _, err := load(cfg, set.Keys, now); err != nil {
			return nil, err
		}
		step := round{cfg: cfg, now: now, keys: set.Keys}
		if algorithm == "" {
			step.cfg.Algorithm = set.Keys[step.find(storage.KeyActive)].Algorithm
		}
		if err := change(&step); err != nil || len(step.changes) == 0 {
			return step.keys, err
		}
		set.Keys = step.keys
		if err := cfg.Store.SwapKeySet(ctx, set); !errors.Is(err, storage.ErrConflict) {
			return set.Keys, err
		}
	}
	return nil, errBusy
}
