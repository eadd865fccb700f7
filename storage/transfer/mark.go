package transfer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"gatehouse.example/storage"
)

// markKey is the key of the mark. It is no record of a [storage.Store]: it is read without keys.
const markKey = storage.KeyPrefix + "copy:mark"

// role is the part that a store has in a copy.
type role string

const (
	roleSource role = "source"
	roleTarget role = "target"
)

// mark is what a copy leaves in both stores, as JSON.
type mark struct {
	Copy  string    `json:"copy"` // drawn when the copy began, the same at both
	Role  role      `json:"role"`
	Other string    `json:"other"` // the name of the other store
	Since time.Time `json:"since"`
	Done  bool      `json:"done,omitempty"` // at the source: the copy was finished

	version storage.Version
}

// readMark returns the mark in a store, nil if there is none.
func readMark(ctx context.Context, b storage.Backend) (*mark, error) {
	item, err := b.Get(ctx, markKey)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	m := &mark{version: item.Version}
	if err := json.Unmarshal(item.Data, m); err != nil || m.Role != roleSource && m.Role != roleTarget {
		return nil, fmt.Errorf("storage/transfer: %s: %w: it is not a mark that this program knows", markKey, storage.ErrRecord)
	}
	return m, nil
}

// put writes a mark.
func (r *run) put(ctx context.Context, b storage.Backend, m *mark, condition storage.Condition) error {
	if _, err := io.ReadFull(r.Records.Rand, m.version[:]); err != nil {
		return fmt.Errorf("storage/transfer: random: %w", err)
	}
	data, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("storage/transfer: %w", err)
	}
	err = settled(ctx, func() error {
		_, err := b.Put(ctx, storage.Put{Key: markKey, Data: data, If: condition, Operation: m.version})
		return err
	})
	if errors.Is(err, storage.ErrConflict) {
		return ErrTaken
	}
	return err
}

// holds returns an error if another run has taken this copy over. Without that, a run that was
// stalled could write to a target that is served already.
func (r *run) holds(ctx context.Context) error {
	m, err := readMark(ctx, r.to)
	if err == nil && (m == nil || m.version != r.target.version) {
		err = ErrTaken
	}
	return err
}

// MarkedError is the error of a store that is part of a copy, and must not be used. It is a
// [storage.ErrUnavailable].
type MarkedError struct {
	// Target means that the store is the target of a copy that is not finished; otherwise it is the
	// source of one that is finished if Done is set.
	Target, Done bool
	// Other is the name of the other store.
	Other string
	// Since is when the copy began.
	Since time.Time
}

func (m *mark) refusal() *MarkedError {
	return &MarkedError{Target: m.Role == roleTarget, Done: m.Done, Other: m.Other, Since: m.Since}
}

// Error says what the copy is.
func (e *MarkedError) Error() string {
	since := e.Since.UTC().Format(time.RFC3339)
	switch {
	case e.Target:
		return fmt.Sprintf("this store is only a part of %s: the copy that began at %s is not finished", e.Other, since)
	case e.Done:
		return fmt.Sprintf("this store was copied to %s at %s and is not used any more", e.Other, since)
	}
	return fmt.Sprintf("this store is being copied to %s since %s and is not used meanwhile", e.Other, since)
}

// Unwrap returns [storage.ErrUnavailable].
func (e *MarkedError) Unwrap() error { return storage.ErrUnavailable }
