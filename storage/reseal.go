package storage

import (
	"context"
	"errors"
	"fmt"
)

// Resealed counts what [Store.Reseal] met.
type Resealed struct {
	Looked int // secrets that were looked at
	Sealed int // of them, those that were sealed anew
	// Unreadable secrets are sealed under none of the master keys, or are in a record that
	// cannot be read. They stay as they are.
	Unreadable int
}

// Reseal seals every secret under the first master key that is sealed under another one:
// the signing keys, the seeds of grants that are not over, and the catalogue's key. When it returns without an
// error and nothing is unreadable, the other master keys are needed no more, provided
// that no process seals under them any longer. It may run beside any number of others
// and changes no token. progress, if it is not nil, hears how far it has come.
//
// The seeds of revoked grants are left alone: nothing opens them again.
func (s *Store) Reseal(ctx context.Context, progress func(Resealed)) (Resealed, error) {
	if len(s.sealer.keys) == 0 {
		return Resealed{}, ErrNoMasterKey
	}
	var done Resealed
	if err := s.resealKeySet(ctx, &done); err != nil {
		return done, err
	}
	if err := done.without(s.resealCatalogue(ctx, &done)); err != nil {
		return done, err
	}
	for name, err := range s.indexed(ctx, userIndex) {
		if err == nil {
			err = s.resealGrants(ctx, name, &done, progress)
		}
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

// resealGrants reseals the grants of one person.
func (s *Store) resealGrants(ctx context.Context, name string, done *Resealed, progress func(Resealed)) error {
	u, err := s.User(ctx, name)
	if err != nil {
		return done.without(err)
	}
	for g, err := range s.UserGrants(ctx, u.Subject) {
		if err == nil {
			err = s.resealGrant(ctx, g, done)
		}
		if err = done.without(err); err != nil {
			return err
		}
		if progress != nil {
			progress(*done)
		}
	}
	return nil
}

// without counts what cannot be read and forgives it, so that one damaged record does not
// keep all others under a key that is to go. A record that is gone needs no sealing.
func (r *Resealed) without(err error) error {
	switch {
	case errors.Is(err, ErrRecord):
		r.Unreadable++
		return nil
	case errors.Is(err, ErrNotFound):
		return nil
	}
	return err
}

// resealAttempts bounds how often a record that keeps changing is tried.
const resealAttempts = 16

func (s *Store) resealKeySet(ctx context.Context, done *Resealed) error {
	for range resealAttempts {
		set, err := s.KeySet(ctx)
		if errors.Is(err, ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		before := *done
		for i := range set.Keys {
			if k := &set.Keys[i]; len(k.Private) > 0 {
				if err := s.reseal(kindKeySet, k.ID, &k.Private, done); err != nil {
					return err
				}
			}
		}
		if done.Sealed == before.Sealed {
			return nil
		}
		if err := s.SwapKeySet(ctx, set); !errors.Is(err, ErrConflict) {
			return err
		}
		*done = before
	}
	return fmt.Errorf("storage: reseal: %w: the key set kept changing", ErrUnavailable)
}

// resealCatalogue changes the state of the catalogue under the hands of its writer, who
// goes on from what is there.
func (s *Store) resealCatalogue(ctx context.Context, done *Resealed) error {
	for range resealAttempts {
		item, err := s.get(ctx, kindCatalogue, catalogueID)
		if err != nil {
			return err
		}
		st, err := s.wholeState(item)
		if err != nil || len(st.SealedCursorKey) == 0 {
			return err
		}
		before := *done
		if err := s.reseal(kindCatalogue, catalogueID, &st.SealedCursorKey, done); err != nil || done.Sealed == before.Sealed {
			return err
		}
		if _, err := s.writeState(ctx, st, Unchanged(item.Version)); !errors.Is(err, ErrConflict) {
			return err
		}
		*done = before
	}
	return fmt.Errorf("storage: reseal: %w: the state of the catalogue kept changing", ErrUnavailable)
}

// resealGrant changes nothing of a grant but its seal: neither does it live longer, nor
// does it count as rotated in the lineage that answers.
func (s *Store) resealGrant(ctx context.Context, g Grant, done *Resealed) (err error) {
	for range resealAttempts {
		if g.State == GrantRevoked {
			return nil
		}
		before, next := *done, g
		if err := s.reseal(kindGrant, g.ID, &next.Seed, done); err != nil || done.Sealed == before.Sealed {
			return err
		}
		if g, err = s.swapOnce(ctx, g, next, ""); err == nil {
			return nil
		}
		*done = before
		if !errors.Is(err, ErrConflict) {
			return err
		}
	}
	return fmt.Errorf("storage: reseal: %w: a grant kept changing", ErrUnavailable)
}

// reseal seals one secret under the first key if it is sealed under another one.
func (s *Store) reseal(kind, id string, secret *Sealed, done *Resealed) error {
	done.Looked++
	plain, err := s.Open(kind, id, *secret)
	if errors.Is(err, ErrRecord) {
		done.Unreadable++
		return nil
	}
	if err != nil || s.sealer.first(*secret) {
		return err
	}
	if *secret, err = s.Seal(kind, id, plain); err != nil {
		return err
	}
	done.Sealed++
	return nil
}
