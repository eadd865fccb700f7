package storage

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// IndexLister is a [Backend] that knows the names of its indexes. Nothing but moving a store to
// another backend needs them (package storage/transfer).
type IndexLister interface {
	Backend

	// Indexes returns some names of indexes that begin with prefix and have entries, and the cursor
	// to go on from, as [Backend.Scan] does for the keys of items.
	Indexes(ctx context.Context, prefix, cursor string, limit int) (names []string, next string, err error)
}

// Inspected is what [Store.Inspect] tells about an item.
type Inspected struct {
	Kind string
	// Left is the lifetime with which the item would be written now, a minute longer than that of
	// its record; zero if it has no end. Over means that nothing is left of it.
	Left time.Duration
	Over bool
	// Unverified is why no [Store] with these master keys and this issuer reads the record, nil if
	// it does. It wraps [ErrRecord].
	Unverified error
	// Code means that the record is a grant whose code was not redeemed.
	Code bool
}

// Inspect tells what an item under a key is, without reading or changing anything else. The error
// wraps [ErrRecord] if the item is not a record of any form that this program knows. Read the key
// set first ([Store.KeySet]): it says whether records without a seal are accepted.
func (s *Store) Inspect(key string, item Item) (Inspected, error) {
	kind, id := kindAndID(key)
	if len(item.Data) < headerLen || item.Data[0] != plainForm && item.Data[0] != sealedForm {
		return Inspected{}, fmt.Errorf("storage: %s: %w: it is not a record that this program knows", key, ErrRecord)
	}
	in := Inspected{Kind: kind}
	if ms := uint64At(item.Data[1:]); ms != 0 {
		in.Left = time.UnixMilli(int64(ms)).Add(slack).Sub(s.now())
		in.Over = in.Left <= 0
	}
	_, body, err := s.unframe(kind, id, item)
	if in.Unverified = err; err == nil && kind == kindGrant {
		g, err := grantOf(id, body)
		if errors.Is(err, errLaterBody) {
			return Inspected{}, fmt.Errorf("storage: %s: %w: %w", key, ErrRecord, err)
		}
		if err != nil {
			in.Unverified = fmt.Errorf("storage: %s: %w", key, errors.Join(ErrRecord, err))
		}
		in.Code = g.State == GrantCode
	}
	return in, nil
}
