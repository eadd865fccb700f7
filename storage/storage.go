// Package storage keeps the durable state of an authorization server: typed records
// over a narrow key-value [Backend].
//
// A [Backend] knows how to get, to put under a condition, to delete, to keep an ordered
// index, and which copy of the database answers. [Store] owns everything else once, for
// every backend: encoding with a version byte, expiry, hashing and sealing of
// secrets, what happens when the reply to a write is lost, and what happens when a copy
// of the database takes over that has forgotten the last writes.
//
// There is one key per aggregate, and an aggregate changes by compare-and-swap. A
// [Grant] holds an authorization code and the whole family of tokens that came from
// it, so redeeming, rotating and revoking compete for the same record and exactly
// one of them wins. Nothing here needs a transaction over two keys, so Redis
// Cluster, Sentinel, a single server and the embedded store behave alike.
//
// Package storage/catalogue keeps the records of a registry in the same store. It is built
// from the same single writes, through a [Table].
//
// Every write carries an operation id ([Version]). A write whose reply was lost is
// sent again with the same id, and a backend that already applied it says so: a
// retry is never mistaken for a second write.
//
// Where there are master keys, every record but those of a [Table] carries a MAC: what
// no process with the keys has written is [ErrForged]. See [Form] for stores from before.
//
// What is refused: a record of an unknown encoding version or without its seal, a sealed
// value under an unknown key or with other associated data, an unlimited lifetime for
// anything that a stranger can create.
package storage

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"sync/atomic"
	"time"
)

var (
	// ErrNotFound says that there is no such record, or that it has expired.
	ErrNotFound = errors.New("storage: not found")
	// ErrConflict says that the record changed since it was read, or already exists.
	ErrConflict = errors.New("storage: conflict")
	// ErrUncertain says that a write may or may not have been applied. Backends
	// return it; [Store] resolves it by sending the same operation again.
	ErrUncertain = errors.New("storage: outcome unknown")
	// ErrLineage says that another copy of the database has taken over and may have
	// forgotten what this write relies on. Nothing was written.
	ErrLineage = errors.New("storage: another copy of the database has taken over")
	// ErrUnavailable says that the store could not answer. Callers tell the client to
	// come back (503 with Retry-After), never that something was or was not found.
	ErrUnavailable = errors.New("storage: unavailable")
	// ErrFull says that the store has no room for more, or keeps the room that is left for
	// what is there already: see [Room]. It is an [ErrUnavailable] too.
	ErrFull = errors.New("storage: full")
	// ErrRecord says that a stored record cannot be read: it was written by a newer
	// program, damaged, or sealed under a key that this process does not have.
	ErrRecord = errors.New("storage: unreadable record")
)

// Options configures a [Store].
type Options struct {
	// Issuer is the issuer identifier; it is bound into refresh tokens and sealed values.
	Issuer string
	// MasterKeys seal records, and secrets in them: 32 bytes each, the first seals and all
	// open. A store without keys can hold a catalogue, and what nobody sealed.
	MasterKeys [][]byte
	// MustSeal says that every record in the store is sealed, whatever the store itself says.
	// Set it when [Store.Form] is [FormSealed]: then whoever puts an older copy in place of
	// everything that tells so is found out.
	MustSeal bool
	// WriteTime bounds a write with its retries; a read, and one attempt to write, have 35 %
	// of it. Zero means two seconds. Set it where the store or the machine is slow, as on one
	// that runs tests beside other things: whoever asks waits that much longer when the store
	// does not answer.
	WriteTime time.Duration
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Rand is the source of randomness; nil means crypto/rand.Reader.
	Rand io.Reader
}

// Store is typed records over a [Backend]. It is safe for concurrent use.
type Store struct {
	backend Backend
	issuer  string
	sealer  sealer
	now     func() time.Time
	rand    io.Reader

	writeTime   time.Duration // bounds a write with its retries
	attemptTime time.Duration // bounds one attempt

	mustSeal  bool
	forms     forms
	listeners atomic.Pointer[[]func(error)] // of OnForged
}

// New returns a Store over backend, or an error if a master key is not 32 bytes long or the
// time for a write is below 0.
func New(backend Backend, o Options) (*Store, error) {
	if o.WriteTime < 0 {
		return nil, errors.New("storage: a write cannot have less than no time")
	}
	sealer, err := newSealer(o.MasterKeys, o.Issuer)
	if err != nil {
		return nil, err
	}
	s := &Store{backend: backend, issuer: o.Issuer, sealer: sealer, now: o.Now, rand: o.Rand, mustSeal: o.MustSeal}
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

// Room says how much room the store has left. It costs no round trip.
func (s *Store) Room() Room { return s.backend.Room() }

// key names the one key of an aggregate.
func key(kind, id string) string { return keyPrefix + kind + ":" + id }

// keyPrefix is what every key of ours begins with.
const keyPrefix = "gatehouse:"
