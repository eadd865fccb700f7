package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"
)

// Form is how records are written in a store: the switch that [Store.SealRecords] moves. It goes
// one way and is kept in the record of the key set; every process keeps the furthest form that it
// has read.
//
// An unused store begins sealed. A store from before there were seals is plain until an operator
// moves the switch, so that processes of an earlier release can run beside this one.
type Form string

const (
	// FormPlain means that records are written without a seal, and read with one or without.
	FormPlain Form = "plain"
	// FormSealing means that records are sealed when they are written, and read with a seal or
	// without; those without are being written anew.
	FormSealing Form = "sealing"
	// FormSealed means that a record without a seal is refused.
	FormSealed Form = "sealed"
)

// form is an ordered [Form]: it only grows.
type form int32

const (
	formUnknown form = iota // nothing was read yet, or the store is unused
	formPlain
	formSealing
	formSealed
)

var formNames = map[form]Form{formPlain: FormPlain, formSealing: FormSealing, formSealed: FormSealed}

func formOf(name Form) form {
	for f, n := range formNames {
		if n == name {
			return f
		}
	}
	return formUnknown
}

// forms is the state of the switch as this process has read it.
type forms struct {
	furthest atomic.Int32
	readAt   atomic.Int64 // when the key set was read last, in milliseconds since 1970
	keys     atomic.Bool  // there were signing keys
}

func (f *forms) load() form           { return form(f.furthest.Load()) }
func (f *forms) atLeast(of form) bool { return f.load() >= of }

func (f *forms) raise(to form) {
	for {
		now := f.furthest.Load()
		if form(now) >= to || f.furthest.CompareAndSwap(now, int32(to)) {
			return
		}
	}
}

// formTime is how long a process uses the form that it has read while the switch is not at its
// end. settleTime is the time after the switch from which no process writes records without a
// seal: the form that a process uses may be formTime old, a write takes its time, and clocks
// differ.
const (
	formTime   = 30 * time.Second
	settleTime = 2 * time.Minute
)

// Form returns how records are written, and when the switch was moved: zero if it was not, or
// never had to be. It is empty for a store without master keys and for an unused one.
func (s *Store) Form(ctx context.Context) (Form, time.Time, error) {
	if len(s.sealer.keys) == 0 {
		return "", time.Time{}, nil
	}
	set, _, err := s.keySet(ctx)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return "", time.Time{}, err
	}
	return formNames[s.forms.load()], set.switched, nil
}

// formNow returns how records are written, and reads the key set if that may have changed.
func (s *Store) formNow(ctx context.Context) (form, error) {
	f := s.forms.load()
	if f == formSealed || f != formUnknown && s.now().UnixMilli()-s.forms.readAt.Load() < formTime.Milliseconds() {
		return f, nil
	}
	if _, _, err := s.keySet(ctx); err != nil && !errors.Is(err, ErrNotFound) {
		return formUnknown, err
	}
	return s.forms.load(), nil
}

// formToWrite is formNow for a record that is about to be written: in an unused store it begins
// the form. The first key set begins it by being written.
func (s *Store) formToWrite(ctx context.Context, kind string) (form, error) {
	if !s.seals(kind) {
		return formPlain, nil
	}
	f, err := s.formNow(ctx)
	if f != formUnknown || err != nil {
		return f, err
	}
	if kind == kindKeySet {
		return formSealed, nil
	}
	if err := s.swapKeySet(ctx, KeySet{}, formSealed); err != nil && !errors.Is(err, ErrConflict) {
		return formUnknown, err
	}
	if f, err = s.formNow(ctx); f == formUnknown && err == nil {
		err = fmt.Errorf("storage: %w: the store is emptied while it is used", ErrUnavailable)
	}
	return f, err
}

// mayBePlain reads the form before a record without a seal is accepted, so that none is for
// longer than other processes write such records.
func (s *Store) mayBePlain(ctx context.Context, kind string, item Item) error {
	if !s.seals(kind) || len(item.Data) == 0 || item.Data[0] != plainForm {
		return nil
	}
	_, err := s.formNow(ctx)
	return err
}

// refusesPlain reports whether a record without a seal is forged. The switch is moved by sealing
// the key set, so that record must be sealed first.
func (s *Store) refusesPlain(kind string) bool {
	if !s.seals(kind) {
		return false
	}
	need := formSealed
	if kind == kindKeySet {
		need = formSealing
	}
	return s.mustSeal || s.forms.atLeast(need)
}

// missingKeySet is called when no key set was found. If there was one, or there are records that
// come after one, it was taken away: creating it anew would replace all tokens and the switch.
// But another process may have created the first one since then, so it is read once more.
func (s *Store) missingKeySet(ctx context.Context) (Item, error) {
	sign, err := s.proofOfKeySet(ctx)
	if sign == nil || err != nil {
		return Item{}, cmp.Or(err, ErrNotFound)
	}
	item, err := s.get(ctx, kindKeySet, keySetID)
	if errors.Is(err, ErrNotFound) {
		err = s.forged(kindKeySet, keySetID, sign)
	}
	return item, err
}

// proofOfKeySet returns the proof that there was a key set, nil if there is none.
func (s *Store) proofOfKeySet(ctx context.Context) (sign, err error) {
	if !s.seals(kindKeySet) {
		return nil, nil
	}
	if s.forms.keys.Load() || s.forms.atLeast(formSealing) {
		return errors.New("it is gone"), nil
	}
	found, err := s.evidence(ctx)
	switch {
	case err != nil:
		return nil, err
	case found > formPlain, found == formPlain && s.mustSeal:
		return errors.New("it is gone, though there are people or clients"), nil
	case found == formPlain:
		s.noteForm(found)
	}
	return nil, nil
}

// noteForm records the form that was just read.
func (s *Store) noteForm(f form) {
	s.forms.raise(f)
	s.forms.readAt.Store(s.now().UnixMilli())
}

// evidenceLen is how many people and clients of each list are read.
const evidenceLen = 16

// evidence reads a few people and clients when there is no key set. A sealed record proves that
// the switch was moved, any other record that the store was in use. If [Options.MustSeal] is set,
// an entry of a list is enough for the second.
func (s *Store) evidence(ctx context.Context) (found form, err error) {
	for _, list := range []struct {
		index, kind string
		id          func(entry string) string
	}{{userIndex, kindUser, strings.Clone}, {clientsByUse, kindClient, clientOf}, {clientsUnused, kindClient, clientOf}} {
		page, err := s.indexPage(ctx, list.index, "", evidenceLen)
		if err != nil {
			return formUnknown, err
		}
		if len(page) > 0 && s.mustSeal {
			found = formPlain
		}
		for i, entry := range page {
			page[i] = key(list.kind, list.id(entry))
		}
		of, err := s.formOfItems(ctx, page)
		if of == formSealed || err != nil {
			return of, err
		}
		found = max(found, of)
	}
	return found, nil
}

// formOfItems returns the form that the items under some keys prove: formSealed if one is
// sealed or is not an item at all, which no Store writes, formPlain if there is any other,
// formUnknown if there is none.
func (s *Store) formOfItems(ctx context.Context, keys []string) (found form, err error) {
	items, err := s.getMany(ctx, keys)
	if errors.Is(err, ErrRecord) {
		return formSealed, nil
	}
	if err != nil {
		return formUnknown, err
	}
	for _, item := range items {
		switch {
		case len(item.Data) > 0 && item.Data[0] == sealedForm:
			return formSealed, nil
		case item.Version != Version{}:
			found = formPlain
		}
	}
	return found, nil
}
