package storage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"gatehouse.example/internal/limited"
)

// Resealed counts the records that [Store.Reseal] met.
type Resealed struct {
	Looked int // records that were read
	Sealed int // those that were sealed anew, or a secret in them
	// Unreadable records cannot be verified with the master keys, or hold a secret that none
	// of them opens. They stay as they are.
	Unreadable int
}

// Reseal seals every record, and every secret in one, under the first master key, unless it is
// already: records of every kind, including those of revoked grants and tombstones of clients.
// While [Store.Form] is plain, only secrets are sealed. When it returns without an error and
// nothing is unreadable, the other master keys are not needed any more, provided that no process
// seals under them any longer. It may run beside any number of others and changes no token. If
// progress is not nil, it is called with the count so far after each record.
func (s *Store) Reseal(ctx context.Context, progress func(Resealed)) (Resealed, error) {
	if len(s.sealer.keys) == 0 {
		return Resealed{}, ErrNoMasterKey
	}
	if progress == nil {
		progress = func(Resealed) {}
	}
	var done Resealed
	if err := s.resealKeySet(ctx, &done); err != nil {
		return done, err
	}
	if err := done.tolerate(s.resealCatalogue(ctx, &done)); err != nil {
		return done, err
	}
	for cursor := ""; ; {
		keys, next, err := s.scan(ctx, cursor)
		if err != nil {
			return done, err
		}
		if err := s.resealKeys(ctx, keys, &done, progress); err != nil {
			return done, err
		}
		if cursor = next; cursor == "" {
			return done, nil
		}
	}
}

// scan returns some keys of records.
func (s *Store) scan(ctx context.Context, cursor string) (keys []string, next string, err error) {
	attempt := limited.Within(ctx, s.attemptTime)
	defer attempt.End()
	if keys, next, err = s.backend.Scan(attempt, KeyPrefix, cursor, manyAtOnce); err != nil {
		return nil, "", unavailable("scan", err)
	}
	return keys, next, nil
}

// resealKeys reseals the records under keys.
func (s *Store) resealKeys(ctx context.Context, keys []string, done *Resealed, progress func(Resealed)) error {
	keys = slices.DeleteFunc(keys, func(k string) bool {
		kind, _ := kindAndID(k)
		return kind == kindKeySet || !s.seals(kind)
	})
	items, err := s.getMany(ctx, keys)
	if err != nil && !errors.Is(err, ErrRecord) {
		return err
	}
	for i, k := range keys {
		kind, id := kindAndID(k)
		var item Item
		if items != nil {
			item = items[i]
		} else if item, err = s.get(ctx, kind, id); err != nil { // one of them is not an item
			if err = done.tolerate(err); err != nil {
				return err
			}
		}
		if item.Version == (Version{}) {
			continue
		}
		if err := done.tolerate(s.resealRecord(ctx, kind, id, item, done)); err != nil {
			return err
		}
		progress(*done)
	}
	return nil
}

// tolerate counts a record that cannot be read and drops its error, so that one damaged record
// does not keep all others under a key that is to be removed. A record that is gone needs no
// sealing.
func (r *Resealed) tolerate(err error) error {
	switch {
	case errors.Is(err, ErrRecord):
		r.Looked++
		r.Unreadable++
		return nil
	case errors.Is(err, ErrNotFound):
		return nil
	}
	return err
}

// count counts a record that was read.
func (r *Resealed) count(sealed bool, unreadable error) {
	r.Looked++
	if sealed {
		r.Sealed++
	}
	if unreadable != nil {
		r.Unreadable++
	}
}

// resealAttempts bounds the attempts for a record that keeps changing.
const resealAttempts = 16

// resealRecord changes only the seals of a record: its end stays, and a grant does not count as
// rotated in the lineage that answers.
func (s *Store) resealRecord(ctx context.Context, kind, id string, item Item, done *Resealed) error {
	for range resealAttempts {
		ms, body, err := s.unframe(kind, id, item)
		if err != nil {
			return err
		}
		f := s.forms.load()
		body, changed, secret := s.resealSecret(f, kind, id, body)
		if secret != nil && !errors.Is(secret, ErrRecord) {
			return secret
		}
		if !changed && s.asWritten(item) {
			done.count(false, secret)
			return nil
		}
		r := record{kind: kind, id: id}
		if ms != 0 {
			r.expires = time.UnixMilli(int64(ms))
		}
		item, err = s.writeBody(ctx, r, f, body, Unchanged(item.Version))
		switch {
		case err == nil:
			done.count(true, secret)
			return nil
		case !errors.Is(err, ErrConflict):
			return err
		case item.Version == Version{}:
			return nil
		}
	}
	return fmt.Errorf("storage: reseal: %w: a record of kind %s kept changing", ErrUnavailable, kind)
}

// asWritten reports whether a record that was read is sealed as a write would seal it now.
func (s *Store) asWritten(item Item) bool {
	return s.forms.load() == formPlain || s.underFirst(item)
}

func (s *Store) resealKeySet(ctx context.Context, done *Resealed) error {
	for range resealAttempts {
		set, item, err := s.keySet(ctx)
		if errors.Is(err, ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		changed := !s.asWritten(item)
		var unreadable error
		for i := range set.Keys {
			if k := &set.Keys[i]; len(k.Private) > 0 {
				resealed, err := s.reseal(kindKeySet, k.ID, &k.Private)
				if errors.Is(err, ErrRecord) {
					unreadable, err = err, nil
				}
				if err != nil {
					return err
				}
				changed = changed || resealed
			}
		}
		if changed {
			err = s.SwapKeySet(ctx, set)
		}
		if !errors.Is(err, ErrConflict) {
			done.count(changed && err == nil, unreadable)
			return err
		}
	}
	return fmt.Errorf("storage: reseal: %w: the key set kept changing", ErrUnavailable)
}

// The one secret in a public record: the key for cursors in the state of the catalogue.
const (
	catalogueID     = "state"
	sealedCursorKey = "sealed_cursor_key"
)

// resealCatalogue changes the state of the catalogue, possibly while a writer is at work. The
// writer then gets a conflict, and goes on from the state that is there.
func (s *Store) resealCatalogue(ctx context.Context, done *Resealed) error {
	state, _ := s.CatalogueTables()
	for range resealAttempts {
		item, err := state.Get(ctx, catalogueID)
		if err != nil {
			return err
		}
		var head map[string]json.RawMessage
		tail, err := state.Decode(item, &head)
		if err != nil || head[sealedCursorKey] == nil {
			return err
		}
		changed, err := s.resealMember(head, sealedCursorKey)
		if err == nil && changed {
			_, err = state.Put(ctx, TableRecord{ID: catalogueID, Head: head, Tail: [][]byte{tail}}, Unchanged(item.Version))
		}
		if err == nil {
			done.count(changed, nil)
		}
		if !errors.Is(err, ErrConflict) {
			return err
		}
	}
	return fmt.Errorf("storage: reseal: %w: the state of the catalogue kept changing", ErrUnavailable)
}

// resealMember seals a secret of the catalogue's state anew, if it is sealed under another key
// than the first.
func (s *Store) resealMember(head map[string]json.RawMessage, name string) (changed bool, err error) {
	var secret Sealed
	if err := json.Unmarshal(head[name], &secret); err != nil {
		return false, fmt.Errorf("storage: %s: %w: %w", kindCatalogue, ErrRecord, err)
	}
	changed, err = s.reseal(kindCatalogue, catalogueID, &secret)
	if err == nil && changed {
		head[name], err = json.Marshal(secret)
	}
	return changed, err
}
