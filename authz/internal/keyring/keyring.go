// Package keyring holds the signing keys of the issuer, and signs and verifies access tokens
// with them (RFC 9068, RFC 7515, RFC 7517).
//
// The keys are shared state: one record in the store, with private keys sealed under the
// master keys. The first process creates it with a put-if-absent, so that several processes
// with one store form one issuer. The id of a key is its RFC 7638 thumbprint.
//
// A key passes through four states. A pending key is published and does not sign, so that all
// caches of the key set contain it before its first token. The active key signs; there is
// exactly one. A retired key is published while tokens that it signed may be valid; its
// private key is deleted. A destroyed key is removed from the record. Every step is one
// compare-and-swap of the record, so exactly one process performs it and the others read the
// result.
//
// A token is refused if its type is not at+jwt, its algorithm is not that of its key, its
// signature does not cover exactly the received bytes, or its issuer is not this one. "none"
// and symmetric algorithms are not among the accepted algorithms. A key set without exactly
// one active key is not loaded, and a token that could outlive its key is not signed.
//
//	ring, err := keyring.Open(ctx, keyring.Config{Store: store, Issuer: issuer, Now: time.Now, Rand: rand.Reader})
//	...
//	go ring.Run(ctx)
//	token, err := ring.Sign(claims)
package keyring

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"

	"gatehouse.example/metadata"
	"gatehouse.example/storage"
)

// Config configures [Open].
type Config struct {
	Store  *storage.Store
	Issuer string
	// Algorithm of new keys: ES256 (the default), EdDSA or RS256.
	Algorithm string
	// CacheTime is the time for which caches may keep the published keys. Default
	// [metadata.MaxAge], at least a second. All processes with one store must have the same
	// value.
	CacheTime time.Duration
	// TokenLife is the longest lifetime of the tokens that any process of the issuer signs or
	// has recently signed. Default one hour.
	TokenLife time.Duration
	// RotateEvery is the time that a key signs. Default 30 days; negative means no rotation.
	RotateEvery time.Duration
	// Changed, if set, is called for each change of a key that this process made.
	Changed func(kid, state string)
	// Logger receives a line for each change of a key. Default: slog.Default.
	Logger *slog.Logger
	Now    func() time.Time
	Rand   io.Reader
}

func (c Config) withDefaults() (Config, error) {
	c.Algorithm = cmp.Or(c.Algorithm, string(jose.ES256))
	c.CacheTime = cmp.Or(c.CacheTime, metadata.MaxAge)
	c.TokenLife = cmp.Or(c.TokenLife, time.Hour)
	c.RotateEvery = cmp.Or(c.RotateEvery, 30*24*time.Hour)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	if c.CacheTime < time.Second || c.TokenLife < 0 {
		return c, fmt.Errorf("cache time %s, token life %s: they are too short", c.CacheTime, c.TokenLife)
	}
	if c.RotateEvery > 0 && c.RotateEvery < c.publishTime() {
		return c, fmt.Errorf("rotation every %s: a key is published for %s before it signs", c.RotateEvery, c.publishTime())
	}
	return c, nil
}

// publishTime returns the time that a key is published before it signs. A cache may have been
// filled by a process that had not read the key yet, which takes a quarter of CacheTime at
// most, and may be kept for CacheTime. Twice CacheTime covers both.
func (c Config) publishTime() time.Duration { return 2 * c.CacheTime }

// skew is the greatest difference between the clocks of two machines.
const skew = time.Minute

// signGrace returns the time after its last reading of the set in which a process may still
// sign a token with the longest lifetime. It covers five failed readings.
func (c Config) signGrace() time.Duration { return c.CacheTime }

// retention returns the time that a retired key is kept. Its last token may come from a
// process that read the retirement late, and lives for TokenLife.
func (c Config) retention() time.Duration { return c.signGrace() + c.TokenLife + skew }

// Ring is the key set of the issuer, ready to sign and to verify. It is safe for concurrent
// use; readers take no lock.
type Ring struct {
	cfg   Config
	keys  atomic.Pointer[keys]
	reads atomic.Uint64 // the number of readings of the store that have begun

	verified verified

	mu      sync.Mutex // one reading of the store at a time
	lastTry time.Time  // the time of the last reading, failed or not
	lastErr error      // of the last reading
}

// Open loads the key set, and creates it if this is the first process of the issuer. The
// error wraps [storage.ErrRecord] if the keys are sealed under a master key that the store
// does not have, or belong to another issuer.
//
// The caller should run [Ring.Run] while it uses the ring.
func Open(ctx context.Context, cfg Config) (*Ring, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("keyring: %w", err)
	}
	r := &Ring{cfg: cfg}
	if _, err := r.readOrCreate(ctx); err != nil {
		return nil, fmt.Errorf("keyring: %w", err)
	}
	return r, nil
}

// readOrCreate reads the set, and creates it first if there is none. If several processes
// create it, all of them read the one that was stored.
func (r *Ring) readOrCreate(ctx context.Context) (storage.KeySet, error) {
	set, err := r.read(ctx)
	if !errors.Is(err, storage.ErrNotFound) {
		return set, err
	}
	first := round{cfg: r.cfg, now: r.cfg.Now()}
	if err := first.begin(); err != nil {
		return storage.KeySet{}, err
	}
	err = r.cfg.Store.SwapKeySet(ctx, storage.KeySet{Keys: first.keys})
	if err != nil && !errors.Is(err, storage.ErrConflict) {
		return storage.KeySet{}, err
	}
	if err == nil {
		r.tell(first.changes)
	}
	return r.read(ctx)
}

// read reads the set and uses it from then on. After an error the known keys stay in use.
func (r *Ring) read(ctx context.Context) (storage.KeySet, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.readLocked(ctx)
}

func (r *Ring) readLocked(ctx context.Context) (storage.KeySet, error) {
	r.lastTry = r.cfg.Now()
	r.reads.Add(1)
	set, loaded, err := r.fetch(ctx)
	r.lastErr = err
	if err == nil {
		r.keys.Store(loaded)
	}
	return set, err
}

func (r *Ring) fetch(ctx context.Context) (storage.KeySet, *keys, error) {
	set, err := r.cfg.Store.KeySet(ctx)
	if err != nil {
		return storage.KeySet{}, nil, err
	}
	loaded, err := load(r.cfg, set.Keys, r.lastTry)
	return set, loaded, err
}

const (
	// retryPause is the time between a failed reading and the next one.
	retryPause = 2 * time.Second
	// rereadInterval is the least time between two readings for unknown key ids, so that a
	// stream of invented ids causes five readings per second at most.
	rereadInterval = 200 * time.Millisecond
)

// reread returns the keys if enough accepts them, and otherwise those of a reading that began
// after the call. A key that these lack does not exist. Concurrent callers share the reading.
// If the error is not nil, there was no such reading, and it is unknown whether the missing
// key exists.
func (r *Ring) reread(enough func(*keys) bool) (*keys, error) {
	asked := r.reads.Load()
	r.mu.Lock()
	defer r.mu.Unlock()
	since := func() time.Duration { return r.cfg.Now().Sub(r.lastTry) }
	settled := func() bool {
		return enough(r.keys.Load()) || r.reads.Load() != asked || (r.lastErr != nil && since() < retryPause)
	}
	if wait := rereadInterval - since(); !settled() && wait > 0 {
		r.mu.Unlock()
		time.Sleep(min(wait, rereadInterval))
		r.mu.Lock()
	}
	if !settled() {
		if _, err := r.readLocked(context.Background()); err != nil { // the store bounds it
			r.logStale(err)
		}
	}
	return r.keys.Load(), r.lastErr
}

// current returns the keys. If [Ring.Run] is not running, or the store is down, it reads them
// again when they are older than CacheTime; one caller reads and the others do not wait.
func (r *Ring) current() *keys {
	known := r.keys.Load()
	now := r.cfg.Now()
	if now.Sub(known.read) < r.cfg.CacheTime || !r.mu.TryLock() {
		return known
	}
	defer r.mu.Unlock()
	if now.Sub(r.lastTry) >= retryPause {
		if _, err := r.readLocked(context.Background()); err != nil {
			r.logStale(err)
		}
	}
	return r.keys.Load()
}

func (r *Ring) logStale(err error) {
	r.cfg.Logger.Warn("the signing keys cannot be read: the known keys stay in use", "error", err,
		"read", r.keys.Load().read)
}
