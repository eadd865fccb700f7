package storage

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Switched is the result of [Store.SealRecords].
type Switched struct {
	Form Form
	// Until is when no process writes records without a seal any more: another call after that
	// moves the switch to its end. It is zero if there is nothing to wait for.
	Until time.Time
	Resealed
}

// SealRecords moves the switch after which every record carries a MAC, for good: see [Form]. It
// seals the records that are there. A call that begins two minutes or more after the first has
// records without a seal refused from then on. Every process on the store must be of a release
// that supports seals: an earlier one cannot read the records that follow. It may be called
// again, by any number of processes, and continues; a running server does so by itself.
//
// The records in the store at the first call are accepted as they are, whatever their origin.
func (s *Store) SealRecords(ctx context.Context, progress func(Resealed)) (Switched, error) {
	if len(s.sealer.keys) == 0 {
		return Switched{}, ErrNoMasterKey
	}
	set, err := s.throwSwitch(ctx)
	if err != nil || s.forms.atLeast(formSealed) {
		return Switched{Form: formNames[s.forms.load()]}, err
	}
	out := Switched{Form: FormSealing, Until: set.switched.Add(settleTime)}
	settled := !s.now().Before(out.Until)
	if out.Resealed, err = s.Reseal(ctx, progress); err != nil || !settled {
		return out, err
	}
	if err := s.changeForm(ctx, formSealed); err != nil {
		return out, err
	}
	out.Form, out.Until = FormSealed, time.Time{}
	return out, nil
}

// throwSwitch makes sure that the switch has been moved, and returns the key set.
func (s *Store) throwSwitch(ctx context.Context) (KeySet, error) {
	if f, err := s.formToWrite(ctx, kindKeySet); err != nil {
		return KeySet{}, err
	} else if f == formSealed && !s.forms.atLeast(formPlain) { // the store is unused
		return KeySet{}, s.changeForm(ctx, formSealed)
	}
	if err := s.changeForm(ctx, formSealing); err != nil {
		return KeySet{}, err
	}
	set, _, err := s.keySet(ctx)
	return set, err
}

// changeForm moves the switch to a form, unless it is there or further.
func (s *Store) changeForm(ctx context.Context, to form) error {
	for range changeAttempts {
		set, _, err := s.keySet(ctx)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
		if err == nil && s.forms.atLeast(to) {
			return nil
		}
		if set.switched.IsZero() && to == formSealing {
			set.switched = s.now().UTC()
		}
		if err := s.swapKeySet(ctx, set, to); !errors.Is(err, ErrConflict) {
			return err
		}
	}
	return fmt.Errorf("storage: switch: %w: the key set kept changing", ErrUnavailable)
}
