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

// Form is how records are written in a store: the switch that [Store.SealRecords] throws.
// It goes one way, stands in the record of the key set, and every process remembers the
// furthest that it has seen.
//
// A store that nobody has used begins sealed. One from before there were seals is plain
// until somebody throws the switch, so that processes of an earlier release can run beside
// this one.
type Form string

const (
	// FormPlain: records are written without a seal, and read with one or without.
	FormPlain Form = "plain"
	// FormSealing: records are sealed when they are written, and read with a seal or
	// without; those that have none are being written anew.
	FormSealing Form = "sealing"
	// FormSealed: a record without a seal is refused.
	FormSealed Form = "sealed"
)

// form is a [Form] in order: it only grows.
type form int32

const (
	formUnknown form = iota // nothing was read yet, or there is nothing
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

// forms is what this process knows of the switch.
type forms struct {
	furthest atomic.Int32
	learned  atomic.Int64 // when the key set was read last, in milliseconds since 1970
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

// formTime is how long a process goes by what it knows while the switch is not at its end,
// settleTime how long after the switch nobody writes records without a seal any more: what a
// process knows may be that old, a write takes its time, and clocks differ.
const (
	formTime   = 30 * time.Second
	settleTime = 2 * time.Minute
)

// Form returns how records are written, and when the switch was thrown: zero if it was not,
// or never had to be. It is empty for a store without master keys and for one that nobody
// has used.
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

// formNow returns how records are written, and asks the store if that may have changed.
func (s *Store) formNow(ctx context.Context) (form, error) {
	f := s.forms.load()
	if f == formSealed || f != formUnknown && s.now().UnixMilli()-s.forms.learned.Load() < formTime.Milliseconds() {
		return f, nil
	}
	if _, _, err := s.keySet(ctx); err != nil && !errors.Is(err, ErrNotFound) {
		return formUnknown, err
	}
	return s.forms.load(), nil
}

// formToWrite is formNow for a record that is about to be written: a store that nobody has
// used begins with it. The first key set begins it by itself.
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

// mayBePlain makes sure that a record without a seal is not believed for longer than others
// write such records.
func (s *Store) mayBePlain(ctx context.Context, kind string, item Item) error {
	if !s.seals(kind) || len(item.Data) == 0 || item.Data[0] != plainForm {
		return nil
	}
	_, err := s.formNow(ctx)
	return err
}

// refusesPlain reports whether a record without a seal is forged. The switch is thrown by
// sealing the key set, so that is the first one that must be.
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

// laterKeySet is what to make of a store in which no key set was found. Where there was one, or
// there are records that come after one, somebody has taken it away: making it anew would make
// all tokens and the switch anew. But another may have made the first one since then, so it
// is looked for once more.
func (s *Store) laterKeySet(ctx context.Context) (Item, error) {
	sign, err := s.signOfKeySet(ctx)
	if sign == nil || err != nil {
		return Item{}, cmp.Or(err, ErrNotFound)
	}
	item, err := s.get(ctx, kindKeySet, keySetID)
	if errors.Is(err, ErrNotFound) {
		err = s.forged(kindKeySet, keySetID, sign)
	}
	return item, err
}

// signOfKeySet says how it is known that there was a key set, nil if it is not.
func (s *Store) signOfKeySet(ctx context.Context) (sign, err error) {
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
		s.learn(found)
	}
	return nil, nil
}

// learn notes what the store has just told.
func (s *Store) learn(f form) {
	s.forms.raise(f)
	s.forms.learned.Store(s.now().UnixMilli())
}

// evidenceLen is how many people and clients are looked at to see what a store is.
const evidenceLen = 16

// evidence reads a few people and clients when there is no key set. A sealed record proves
// that the switch was thrown, any other record that the store was in use. If Options.MustSeal
// is set, an entry of a list is enough for the second.
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
