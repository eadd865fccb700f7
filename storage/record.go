package storage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"gatehouse.example/internal/limited"
)

// slack is how long a key outlives its record: expiry is decided by the record, the key's
// lifetime only frees memory.
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
	attempt := limited.Within(ctx, s.attemptTime)
	defer attempt.End()
	item, err := s.backend.Get(attempt, key(kind, id))
	if err != nil {
		return Item{}, s.fault("read", kind, id, err)
	}
	return item, nil
}

// record is a value that is about to be written.
type record struct {
	kind, id string
	value    any
	expires  time.Time // zero for a record without an end
	listed   []Listing
	on       Lineage

	forgettable bool
	yields      bool // it is not written while room is short
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
	f, err := s.formToWrite(ctx, r.kind)
	if err != nil {
		return Item{}, err
	}
	body, err := encodeIn(f, r.value)
	if err != nil {
		return Item{}, err
	}
	return s.writeBody(ctx, r, f, body, cond)
}

// writeBody is write for an encoded body.
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

// send draws the operation id of a write and sends it. If data is not nil, it returns the bytes
// to write for that id. On [ErrConflict] send returns the item that is there, zero if there is
// none; while the outcome is unknown, only the version that may be there.
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
		err = s.conflictWith(kind, id, item)
	case errors.Is(err, ErrUncertain):
		return Item{Version: put.Operation}, s.fault("write", kind, id, err) // what may be there
	case err != nil:
		err = s.fault("write", kind, id, err)
	}
	return item, err
}

// conflictWith returns [ErrConflict], or [ErrForged] if the record in the way is forged: then not
// even its existence is a fact.
func (s *Store) conflictWith(kind, id string, item Item) error {
	if item.Version == (Version{}) {
		return ErrConflict
	}
	if _, _, err := s.unframe(kind, id, item); errors.Is(err, ErrForged) {
		return err
	}
	return ErrConflict
}

// fault is [unavailable] for one record. A value that the backend does not recognise as an item
// is forged where records are sealed.
func (s *Store) fault(what, kind, id string, err error) error {
	if errors.Is(err, ErrRecord) {
		return s.unreadable(kind, id, err)
	}
	return unavailable(what+" "+kind, err)
}

// mustEnd are the kinds of records that unauthenticated clients can create, or that keep a right
// alive.
var mustEnd = map[string]bool{
	kindGrant: true, kindTransaction: true, kindSession: true, kindAssertion: true, kindInitialToken: true,
	kindOnce: true, kindProviderSession: true,
}

// put sends one operation until its outcome is known or time is over. Sending it again is safe:
// the operation id makes it the same write.
func (s *Store) put(ctx context.Context, put Put) (Item, error) {
	over := time.Now().Add(s.writeTime)
	item, err := s.attempt(ctx, put)
	if !errors.Is(err, ErrUncertain) {
		return item, err
	}
	ctx, cancel := context.WithDeadline(ctx, over)
	defer cancel()
	for errors.Is(err, ErrUncertain) {
		select {
		case <-ctx.Done():
			return item, err
		case <-time.After(retryPause):
		}
		s.retries.Add(1)
		item, err = s.attempt(ctx, put)
	}
	if err != nil && !settled(err) {
		err = fmt.Errorf("%w: %w", ErrUncertain, err) // an earlier attempt may have been applied
	}
	return item, err
}

// Retries returns how many times a write was sent again because its outcome was not known, for metrics.
func (s *Store) Retries() int64 { return s.retries.Load() }

// attempt sends an operation once.
func (s *Store) attempt(ctx context.Context, put Put) (Item, error) {
	attempt := limited.Within(ctx, s.attemptTime)
	defer attempt.End()
	return s.backend.Put(attempt, put)
}

// settled reports whether the error of a repeated write determines its outcome.
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
// 1970 as eight bytes (zero: none), and the body: JSON, or in a [Table] a head and a tail. So is one
// in the sealed form (mac.go), but there the body of a grant is compact (grantbytes.go).
const headerLen = 1 + 8

// encodeIn returns the body of a record in a form.
func encodeIn(f form, v any) (body []byte, err error) {
	switch v := v.(type) {
	case Grant:
		if f == formPlain {
			body, err = v.appendJSON(make([]byte, 0, 1024))
		} else {
			body, err = v.appendCompact(make([]byte, 0, 448))
		}
	case Client:
		body, err = v.appendJSON(make([]byte, 0, 640))
	case Transaction:
		body, err = v.appendJSON(make([]byte, 0, 640))
	default:
		return encode(v)
	}
	if err != nil {
		return nil, fmt.Errorf("storage: encode: %w", err)
	}
	return body, nil
}

// encode returns the body of any other record.
func encode(v any) ([]byte, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("storage: encode: %w", err)
	}
	return body, nil
}

// decode reads an item into v, which is zero.
func (s *Store) decode(kind, id string, item Item, v any) error {
	body, err := s.body(kind, id, item)
	if err != nil {
		return err
	}
	if to, ok := v.(*Grant); ok {
		*to, err = grantOf(id, body)
	} else {
		err = unmarshal(body, v)
	}
	if err != nil {
		return fmt.Errorf("storage: %s: %w: %w", kind, ErrRecord, err)
	}
	return nil
}

// body returns the bytes after the header of an item, or [ErrNotFound] if the record has expired.
func (s *Store) body(kind, id string, item Item) ([]byte, error) {
	ms, body, err := s.unframe(kind, id, item)
	if err == nil {
		err = s.ended(ms)
	}
	if err != nil {
		return nil, err
	}
	return body, nil
}

// ended returns [ErrNotFound] if the end of a record is over, in milliseconds since 1970, 0 for none.
func (s *Store) ended(ms uint64) error {
	if ms != 0 && s.now().UnixMilli() >= int64(ms) {
		return ErrNotFound
	}
	return nil
}
