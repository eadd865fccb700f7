package storage

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Switched is what [Store.SealRecords] has done.
type Switched struct {
	Form Form
	// Until is when nobody writes records without a seal any more: calling again after that
	// ends it. It is zero if there is nothing to wait for.
	Until time.Time
	Resealed
}

// SealRecords throws the switch after which every record carries a MAC, for good: see
// [Form]. It seals those that are there, and when it begins two minutes or more after the
// switch was thrown, those without a seal are refused from then on. Every process on the
// store must be of a release that knows seals: an earlier one cannot read what comes then.
// It may be called again, by any number of processes, and goes on where it was; a server that
// runs does so by itself.
//
// What is in the store when the switch is thrown is believed, whoever wrote it.
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

// throwSwitch makes sure that the switch is thrown, and returns the key set.
func (s *Store) throwSwitch(ctx context.Context) (KeySet, error) {
	if f, err := s.formToWrite(ctx, kindKeySet); err != nil {
		return KeySet{}, err
	} else if f == formSealed && !s.forms.atLeast(formPlain) { // nobody has used the store
		return KeySet{}, s.changeForm(ctx, formSealed)
	}
	if err := s.changeForm(ctx, formSealing); err != nil {
		return KeySet{}, err
	}
	set, _, err := s.keySet(ctx)
	return set, err
}

// changeForm moves the switch on, unless it is there or further.
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
