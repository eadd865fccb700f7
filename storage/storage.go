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
	"encoding/json"
	"errors"
	"fmt"
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

// slack is how long a key outlives its record: expiry is decided by the record, the
// key's lifetime only frees memory.
const slack = time.Minute

const (
	defaultWriteTime = 2 * time.Second
	retryPause       = 10 * time.Millisecond
)

// read decodes the record under kind and id into v and returns its version.
func (s *Store) read(ctx context.Context, kind, id string, v any) (Version, error) {
	item, err := s.get(ctx, kind, id)
	if err == nil {
		err = s.mayBePlain(ctx, kind, item)
	}
	if err != nil {
		return Version{}, err
	}
	return item.Version, s.decode(kind, id, item, v)
}

// get returns the item under kind and id.
func (s *Store) get(ctx context.Context, kind, id string) (Item, error) {
	ctx, cancel := context.WithTimeout(ctx, s.attemptTime)
	defer cancel()
	item, err := s.backend.Get(ctx, key(kind, id))
	if err != nil {
		return Item{}, s.fault("read", kind, id, err)
	}
	return item, nil
}

// record is a value that is about to be written.
type record struct {
	kind, id string
	value    any
	expires  time.Time // zero for a record that stays
	listed   []Listing
	on       Lineage

	forgettable bool
	yields      bool // while room is short it is not written
}

// write writes r if cond holds. On [ErrConflict] it returns the item that is there,
// with a zero Item if none is.
func (s *Store) write(ctx context.Context, r record, cond Condition) (Item, error) {
	if r.expires.IsZero() && mustEnd[r.kind] {
		return Item{}, fmt.Errorf("storage: write %s: it must have an end", r.kind)
	}
	if r.yields && s.backend.Room() != RoomEnough {
		return Item{}, unavailable("write "+r.kind, ErrFull)
	}
	body, err := encode(r.value)
	if err != nil {
		return Item{}, err
	}
	f, err := s.formToWrite(ctx, r.kind)
	if err != nil {
		return Item{}, err
	}
	return s.writeBody(ctx, r, f, body, cond)
}

// writeBody is write for a body that is encoded.
func (s *Store) writeBody(ctx context.Context, r record, f form, body []byte, cond Condition) (Item, error) {
	put := Put{If: cond, Listed: r.listed, On: r.on, Forgettable: r.forgettable}
	expires := uint64(0)
	if !r.expires.IsZero() {
		expires = uint64(r.expires.UnixMilli())
		put.TTL = max(r.expires.Sub(s.now()), 0) + slack
	}
	return s.send(ctx, r.kind, r.id, put, func(operation Version) []byte {
		return s.frame(f, r.kind, r.id, operation, expires, body)
	})
}

// send makes an operation of a write and sends it. Data, if it is not nil, makes what is
// written, of which the operation is a part. On [ErrConflict] it returns the item that is
// there, zero if none is; while the outcome is not known, only the version that may be there.
func (s *Store) send(ctx context.Context, kind, id string, put Put, data func(operation Version) []byte) (Item, error) {
	put.Key = key(kind, id)
	if _, err := io.ReadFull(s.rand, put.Operation[:]); err != nil {
		return Item{}, fmt.Errorf("storage: random: %w", err)
	}
	if data != nil {
		put.Data = data(put.Operation)
	}
	item, err := s.put(ctx, put)
	switch {
	case errors.Is(err, ErrConflict):
		err = s.lostTo(kind, id, item)
	case errors.Is(err, ErrUncertain):
		return Item{Version: put.Operation}, s.fault("write", kind, id, err) // what may be there
	case err != nil:
		err = s.fault("write", kind, id, err)
	}
	return item, err
}

// lostTo is [ErrConflict], unless the record that was in the way is forged: nobody may take
// what that says for a fact, not even that it is there.
func (s *Store) lostTo(kind, id string, item Item) error {
	if item.Version == (Version{}) {
		return ErrConflict
	}
	if _, _, err := s.unframe(kind, id, item); errors.Is(err, ErrForged) {
		return err
	}
	return ErrConflict
}

// fault is [unavailable] for one record. What the backend calls no item is forged where
// records are sealed.
func (s *Store) fault(what, kind, id string, err error) error {
	if errors.Is(err, ErrRecord) {
		return s.unreadable(kind, id, err)
	}
	return unavailable(what+" "+kind, err)
}

// mustEnd are the kinds of records that strangers can make, or that keep a right alive.
var mustEnd = map[string]bool{
	kindGrant: true, kindTransaction: true, kindSession: true, kindAssertion: true, kindInitialToken: true,
}

// put sends one operation until its outcome is known or time is over. Sending it
// again is safe: the operation id makes it the same write.
func (s *Store) put(ctx context.Context, put Put) (Item, error) {
	ctx, cancel := context.WithTimeout(ctx, s.writeTime)
	defer cancel()
	sent := false
	for {
		attempt, stop := context.WithTimeout(ctx, s.attemptTime)
		item, err := s.backend.Put(attempt, put)
		stop()
		switch {
		case errors.Is(err, ErrUncertain):
			sent = true
		case sent && err != nil && !settled(err):
			err = fmt.Errorf("%w: %w", ErrUncertain, err) // an attempt before may have been applied
			return item, err
		default:
			return item, err
		}
		select {
		case <-ctx.Done():
			return item, err
		case <-time.After(retryPause):
		}
	}
}

// settled reports whether an error of a write that was sent before says what came of it.
func settled(err error) bool {
	return errors.Is(err, ErrConflict) || errors.Is(err, ErrLineage)
}

// unavailable keeps the sentinels that callers act on and marks everything else as
// [ErrUnavailable], so that an unknown fault is never read as "not found".
func unavailable(what string, err error) error {
	for _, kind := range []error{ErrNotFound, ErrConflict, ErrRecord, ErrLineage} {
		if errors.Is(err, kind) {
			return err
		}
	}
	return fmt.Errorf("storage: %s: %w: %w", what, ErrUnavailable, err)
}

// A record in the plain form is its encoding version (1), the expiry in milliseconds since
// 1970 as eight bytes (zero: none), and the body: JSON, or in a [Table] a head and a tail.
const headerLen = 1 + 8

func encode(v any) ([]byte, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("storage: encode: %w", err)
	}
	return body, nil
}

// decode reads an item into v.
func (s *Store) decode(kind, id string, item Item, v any) error {
	body, err := s.body(kind, id, item)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, v); err != nil {
		return fmt.Errorf("storage: %s: %w: %w", kind, ErrRecord, err)
	}
	return nil
}

// body returns what follows the header of an item. Expiry is decided here, by the record.
func (s *Store) body(kind, id string, item Item) ([]byte, error) {
	ms, body, err := s.unframe(kind, id, item)
	if err == nil && ms != 0 && s.now().UnixMilli() >= int64(ms) {
		err = ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	return body, nil
}
