// Package keyring holds the signing keys of the issuer and makes and checks access
// tokens with them (RFC 9068, RFC 7515, RFC 7517).
//
// The keys are shared state: one record in the store, private parts sealed under the
// master keys. The first process to start creates it with a put-if-absent, so that
// several processes with one store are one issuer. A key's id is its RFC 7638
// thumbprint.
//
// A key lives through four states. It is pending while it is published and does not
// sign, so that everybody who caches the keys has seen it before the first token comes.
// It is active while it signs; exactly one key is. It is retired while tokens that it
// signed may be alive: published, its private part deleted. Then it is destroyed, which
// means that it is gone. Every step is one compare-and-swap of the record, so of many
// processes exactly one takes it, and the others read what came of it.
//
// What is refused: a token whose type is not at+jwt, whose algorithm is not that of
// its key, whose signature is not over exactly the received bytes, or whose issuer is
// not ours. "none" and symmetric algorithms are not in the list of algorithms at all. A
// set without exactly one active key is not loaded, and a token that could outlive its
// key is not signed.
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
	// CacheTime is how long others may keep the published keys. Default
	// [metadata.MaxAge], at least a second. Processes with one store have the same.
	CacheTime time.Duration
	// TokenLife is how long a token may live that any process of the issuer signs, now
	// or lately. Default one hour.
	TokenLife time.Duration
	// RotateEvery is how long a key signs. Default 30 days, negative for ever.
	RotateEvery time.Duration
	// Logger gets a line for each change of a key. Default: slog.Default.
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
	if c.RotateEvery > 0 && c.RotateEvery < c.published() {
		return c, fmt.Errorf("rotation every %s: a key is published for %s before it signs", c.RotateEvery, c.published())
	}
	return c, nil
}

// published is how long a key is in the key set before it signs. A cache may have been
// filled by a process that had not read the key yet, which takes a quarter of CacheTime
// at most, and may be kept for CacheTime: twice that leaves room.
func (c Config) published() time.Duration { return 2 * c.CacheTime }

// skew is how far the clocks of two machines may be apart.
const skew = time.Minute

// behind is how long after its last reading of the set a process may sign a token with
// the longest life: five readings can fail.
func (c Config) behind() time.Duration { return c.CacheTime }

// outlives is how long a retired key is kept. The last token that it signed may come
// from a process that learned of the retirement late, and lives for TokenLife.
func (c Config) outlives() time.Duration { return c.behind() + c.TokenLife + skew }

// Ring is the key set of the issuer, ready to sign and to verify. It is safe for
// concurrent use; readers take no lock.
type Ring struct {
	cfg   Config
	keys  atomic.Pointer[keys]
	begun atomic.Uint64 // how many readings of the store have begun

	mu     sync.Mutex // one reading of the store at a time
	tried  time.Time  // when it was last read or tried to be
	failed error      // why the last reading told nothing; nil if the store answered
}

// Open loads the key set, and creates it if this is the first process of the issuer.
// The error wraps [storage.ErrRecord] if the keys are sealed under a master key that
// the store does not have or belong to another issuer.
//
// Whoever keeps the ring should let it [Ring.Run].
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

// readOrCreate reads the set, and creates it if there is none: whoever is first,
// everybody reads what is there.
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
	return r.read(ctx)
}

// read reads the set and takes it over. If that fails, what is known stays.
func (r *Ring) read(ctx context.Context) (storage.KeySet, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.readLocked(ctx)
}

func (r *Ring) readLocked(ctx context.Context) (storage.KeySet, error) {
	r.tried = r.cfg.Now()
	r.begun.Add(1)
	set, loaded, err := r.ask(ctx)
	r.failed = err
	if errors.Is(err, storage.ErrNotFound) {
		r.failed = nil // the store knows that it has no keys
	}
	if err == nil {
		r.keys.Store(loaded)
	}
	return set, err
}

func (r *Ring) ask(ctx context.Context) (storage.KeySet, *keys, error) {
	set, err := r.cfg.Store.KeySet(ctx)
	if err != nil {
		return storage.KeySet{}, nil, err
	}
	loaded, err := load(r.cfg, set.Keys, r.tried)
	return set, loaded, err
}

const (
	// pause is how long the store is left alone when a reading has failed.
	pause = 2 * time.Second
	// gap is how long a question waits for another reading after one that told
	// something. A stream of invented key ids costs five readings in a second.
	gap = 200 * time.Millisecond
)

// renewed returns keys that are enough, or else those of a reading that began after it
// was called: what these do not have, nobody has. Whoever asks meanwhile shares the
// reading. The error says why there is none; then what the keys do not have is unknown.
func (r *Ring) renewed(enough func(*keys) bool) (*keys, error) {
	asked := r.begun.Load()
	r.mu.Lock()
	defer r.mu.Unlock()
	since := func() time.Duration { return r.cfg.Now().Sub(r.tried) }
	settled := func() bool {
		return enough(r.keys.Load()) || r.begun.Load() != asked || (r.failed != nil && since() < pause)
	}
	if wait := gap - since(); !settled() && wait > 0 {
		r.mu.Unlock()
		time.Sleep(min(wait, gap))
		r.mu.Lock()
	}
	if !settled() {
		if _, err := r.readLocked(context.Background()); err != nil { // the store bounds it
			r.stale(err)
		}
	}
	return r.keys.Load(), r.failed
}

// current returns the keys. Where nobody calls [Ring.Run], or the store is down, they
// are read again when they are as old as others may keep them; one caller does it and
// the rest do not wait.
func (r *Ring) current() *keys {
	known := r.keys.Load()
	now := r.cfg.Now()
	if now.Sub(known.read) < r.cfg.CacheTime || !r.mu.TryLock() {
		return known
	}
	defer r.mu.Unlock()
	if now.Sub(r.tried) >= pause {
		if _, err := r.readLocked(context.Background()); err != nil {
			r.stale(err)
		}
	}
	return r.keys.Load()
}

func (r *Ring) stale(err error) {
	r.cfg.Logger.Warn("the signing keys cannot be read: those that are known stay in use", "error", err,
		"read", r.keys.Load().read)
}
