// Package storage keeps the durable state of an authorization server: typed records
// over a narrow key-value [Backend].
//
// A [Backend] can get, put under a condition, delete, keep an ordered index, and report which
// copy of the database answers. [Store] does everything else once, for every backend: encoding
// with a version byte, expiry, hashing and sealing of secrets, what happens when the reply to a
// write is lost, and what happens when a copy of the database takes over that lacks the last
// writes.
//
// There is one key per aggregate, and an aggregate changes by compare-and-swap. A [Grant] holds
// an authorization code and the whole family of tokens that came from it, so redeeming, rotating
// and revoking compete for the same record and exactly one of them wins. No operation needs a
// transaction over two keys, so Redis Cluster, Sentinel, a single server and the embedded store
// behave alike.
//
// Package storage/catalogue keeps the records of a registry in the same store. It is built
// from the same single writes, through a [Table].
//
// Every write carries an operation id ([Version]). A write whose reply was lost is sent again
// with the same id, and a backend that already applied it recognises it: a retry is never
// mistaken for a second write.
//
// Where there are master keys, every record but those of a [Table] carries a MAC: one that no
// process with the keys has written is [ErrForged]. See [Form] for stores from before.
//
// A Store refuses a record of an unknown encoding version or without its seal, a sealed value
// under an unknown key or with other associated data, and an unlimited lifetime for any record
// that an unauthenticated client can create.
package storage

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

var (
	// ErrNotFound means that there is no such record, or that it has expired.
	ErrNotFound = errors.New("storage: not found")
	// ErrConflict means that the record changed since it was read, or already exists.
	ErrConflict = errors.New("storage: conflict")
	// ErrUncertain means that a write may or may not have been applied. Backends return it;
	// [Store] resolves it by sending the same operation again.
	ErrUncertain = errors.New("storage: outcome unknown")
	// ErrLineage means that another copy of the database has taken over and may lack a write that
	// this one relies on. Nothing was written.
	ErrLineage = errors.New("storage: another copy of the database has taken over")
	// ErrUnavailable means that the store could not answer. Callers ask the client to come back
	// (503 with Retry-After), and conclude nothing about the record.
	ErrUnavailable = errors.New("storage: unavailable")
	// ErrFull means that the store has no room for more, or reserves the rest for what is there
	// already: see [Room]. It is an [ErrUnavailable] too.
	ErrFull = errors.New("storage: full")
	// ErrRecord means that a stored record cannot be read: it was written by a newer program,
	// damaged, or sealed under a key that this process does not have.
	ErrRecord = errors.New("storage: unreadable record")
)

// Options are the settings of a [Store].
type Options struct {
	// Issuer is the issuer identifier; it is bound into refresh tokens and sealed values.
	Issuer string
	// MasterKeys seal records, and secrets in them: 32 bytes each. The first seals, and all open.
	// Leave them out for a store that holds a catalogue only: it cannot read sealed records.
	MasterKeys [][]byte
	// MustSeal requires every record in the store to be sealed, whatever its key set says. Set it
	// when [Store.Form] is [FormSealed]: then it is noticed when an attacker replaces the whole
	// store by an older copy.
	MustSeal bool
	// WriteTime bounds a write with its retries; a read, and one attempt to write, have 35 % of
	// it. Zero means two seconds. Set a longer time where the store or the machine is slow, for
	// example under tests: requests wait that much longer when the store does not answer.
	WriteTime time.Duration
	// Now is the clock; nil means time.Now. Set it in tests.
	Now func() time.Time
	// Rand is the source of randomness; nil means crypto/rand.Reader. Set it in tests.
	Rand io.Reader
}

// Store is typed records over a [Backend]. It is safe for concurrent use.
type Store struct {
	backend Backend
	issuer  string
	sealer  sealer
	now     func() time.Time
	rand    io.Reader

	networkMACs func() (*sync.Pool, error) // of hash.Hash, see [Store.NetworkName]

	writeTime   time.Duration // bounds a write with its retries
	attemptTime time.Duration // bounds one attempt

	mustSeal  bool
	forms     forms
	listeners atomic.Pointer[[]func(error)] // the functions given to OnForged
	retries   atomic.Int64                  // of writes
}

// New returns a Store over backend. A master key that is not 32 bytes long and a negative
// WriteTime are errors.
func New(backend Backend, o Options) (*Store, error) {
	if o.WriteTime < 0 {
		return nil, errors.New("storage: the time of a write is negative")
	}
	sealer, err := newSealer(o.MasterKeys, o.Issuer)
	if err != nil {
		return nil, err
	}
	s := &Store{backend: backend, issuer: o.Issuer, sealer: sealer, now: o.Now, rand: o.Rand, mustSeal: o.MustSeal}
	s.networkMACs = sync.OnceValues(s.newNetworkMACs)
	s.writeTime = cmp.Or(o.WriteTime, defaultWriteTime)
	s.attemptTime = s.writeTime * 35 / 100
	if s.now == nil {
		s.now = time.Now
	}
	if s.rand == nil {
		s.rand = rand.Reader
	}
	return s, nil
}

// Issuer returns the issuer identifier that the store was opened for.
func (s *Store) Issuer() string { return s.issuer }

// WriteTime returns how long a write may take with its retries.
func (s *Store) WriteTime() time.Duration { return s.writeTime }

// Now returns the time by the clock of the store.
func (s *Store) Now() time.Time { return s.now() }

// Close closes the backend.
func (s *Store) Close() error { return s.backend.Close() }

// Ping reports whether the backend answers: nil, or an error that wraps [ErrUnavailable].
func (s *Store) Ping(ctx context.Context) error {
	_, err := s.backend.Get(ctx, key("ping", "ping"))
	if err == nil || errors.Is(err, ErrNotFound) {
		return nil
	}
	return unavailable("ping", err)
}

// Room returns how much room the store has left. It costs no round trip.
func (s *Store) Room() Room { return s.backend.Room() }

// key returns the key of a record.
func key(kind, id string) string { return KeyPrefix + kind + ":" + id }

// KeyPrefix begins every key of a Store, and the name of every index.
const KeyPrefix = "gatehouse:"

// kindAndID returns what [key] made a key of.
func kindAndID(k string) (kind, id string) {
	kind, id, _ = strings.Cut(strings.TrimPrefix(k, KeyPrefix), ":")
	return kind, id
}
