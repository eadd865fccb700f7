package keyring

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"gatehouse.example/storage"
)

// Run keeps the ring up to date with the store until ctx ends: it reads the set five times in
// CacheTime, and performs the steps that are due. Any number of processes may call Run; the
// first swap decides which of them performs a step. Run returns when its work has ended.
//
// While the store is down, the known keys stay in use. That is safe. A process that cannot
// reach the store may miss that its key was retired, and continue to sign with it; such a
// token is still valid. If the set was last read at L, the key was active at L and is kept
// for CacheTime + TokenLife + a minute after its retirement, which came after L. So a token
// that ends by L + CacheTime + TokenLife ends while its key is kept, and [Ring.Sign] signs no
// other. Tokens of five minutes are signed for an hour without a reading, tokens of one hour
// for five minutes. A revoked key is different: all other processes refuse what a process
// signs with it before its next reading, which is the purpose of revocation.
//
// Without Run the ring reads the set again when it is used and older than CacheTime, and
// never rotates.
func (r *Ring) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		if err := r.step(ctx); err != nil && ctx.Err() == nil {
			r.logStale(err)
		}
		timer.Reset(r.interval())
	}
}

// interval returns a fifth of CacheTime, give or take a tenth of it, so that processes that
// started together do not read at the same time.
func (r *Ring) interval() time.Duration {
	every := r.cfg.CacheTime / 5
	var b [1]byte
	_, _ = io.ReadFull(r.cfg.Rand, b[:]) // after an error there is no jitter
	return every + every*(time.Duration(b[0])-128)/1280
}

// step reads the set and performs the steps that are due. After a lost swap it reads the set
// that the other process wrote.
func (r *Ring) step(ctx context.Context) error {
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
		r.tell(step.changes)
	}
	if err != nil && !errors.Is(err, storage.ErrConflict) {
		return err // the swap may have succeeded: the next reading shows it
	}
	_, err = r.read(ctx)
	return err
}

// tell logs changes of keys, and reports them.
func (r *Ring) tell(changes []change) {
	for _, c := range changes {
		r.cfg.Logger.Info("signing key", "kid", c.kid, "is", c.state)
		if r.cfg.Changed != nil {
			r.cfg.Changed(c.kid, c.state)
		}
	}
}

// Rotate makes the next key and returns it. The key is pending, and a running server
// activates it when it has been published for long enough. With now it is active at once. If
// there is a pending key already, that is the next one. An empty cfg.Algorithm means that of
// the active key.
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

// Revoke destroys a key at once and returns the active one. Other processes accept the
// revoked key until they read the set again. The error wraps [storage.ErrNotFound] if there
// is no such key.
func Revoke(ctx context.Context, cfg Config, kid string) (storage.SigningKey, error) {
	keys, err := amend(ctx, cfg, func(r *round) error { return r.revoke(kid) })
	if err != nil {
		return storage.SigningKey{}, fmt.Errorf("keyring: revoke: %w", err)
	}
	done := round{keys: keys}
	return keys[done.find(storage.KeyActive)], nil
}

// amend changes the set outside of a running server. It refuses if it cannot open the
// existing keys: then the servers could not open the key that it would seal.
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
