package keyring

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"gatehouse.example/storage"
)

// round is one change of the key set in the making: the keys, and what happened to
// them. It becomes real when the set is swapped.
type round struct {
	cfg     Config
	now     time.Time
	keys    []storage.SigningKey
	changes []change
}

// change is what happened to a key.
type change struct {
	kid, became string
}

const destroyed = "destroyed"

func (r *round) note(kid, became string) { r.changes = append(r.changes, change{kid, became}) }

// find returns the index of the first key in a state, or -1.
func (r *round) find(state storage.KeyState) int {
	return slices.IndexFunc(r.keys, func(k storage.SigningKey) bool { return k.State == state })
}

// begin makes the first key of an issuer. It signs at once: nobody can have cached an
// older set.
func (r *round) begin() error {
	if err := r.make(); err != nil {
		return err
	}
	r.activate(0)
	return nil
}

// due takes every step that the clock asks for.
func (r *round) due() error {
	for _, k := range slices.Clone(r.keys) {
		if k.State == storage.KeyRetired && !r.now.Before(k.Retired.Add(r.cfg.outlives())) {
			r.destroy(k.ID)
		}
	}
	next := r.find(storage.KeyPending)
	if next >= 0 {
		if !r.now.Before(r.keys[next].Created.Add(r.cfg.published())) {
			r.activate(next)
		}
		return nil
	}
	active := r.find(storage.KeyActive)
	if r.cfg.RotateEvery < 0 || active < 0 {
		return nil
	}
	// The next key is made so early that it can sign in time.
	if r.now.Before(r.keys[active].Activated.Add(r.cfg.RotateEvery - r.cfg.published())) {
		return nil
	}
	return r.make()
}

// rotate makes the next key, unless there is one, and lets it sign now or when it has
// been published for long enough.
func (r *round) rotate(now bool) error {
	if r.find(storage.KeyPending) < 0 {
		if err := r.make(); err != nil {
			return err
		}
	}
	if now {
		r.activate(r.find(storage.KeyPending))
	}
	return nil
}

// revoke destroys a key before its time. In place of the active one a new key signs at
// once, and not the pending one: a resource that meets an unknown key asks for the set,
// and so learns soonest which key is gone.
func (r *round) revoke(kid string) error {
	i := slices.IndexFunc(r.keys, func(k storage.SigningKey) bool { return k.ID == kid })
	if i < 0 {
		return fmt.Errorf("key %s: %w", kid, storage.ErrNotFound)
	}
	wasActive := r.keys[i].State == storage.KeyActive
	r.destroy(kid)
	if !wasActive {
		return nil
	}
	if err := r.make(); err != nil {
		return err
	}
	r.activate(len(r.keys) - 1)
	return nil
}

// make adds a pending key.
func (r *round) make() error {
	key, err := generate(r.cfg, r.now)
	if err != nil {
		return err
	}
	r.keys = append(r.keys, key)
	r.note(key.ID, string(key.State))
	return nil
}

// activate lets a key sign and retires the one that did. What is retired signs nothing
// any more, so its private part is deleted.
func (r *round) activate(i int) {
	if old := r.find(storage.KeyActive); old >= 0 {
		k := &r.keys[old]
		k.State, k.Retired, k.Private = storage.KeyRetired, r.now, nil
		r.note(k.ID, string(k.State))
	}
	k := &r.keys[i]
	k.State, k.Activated = storage.KeyActive, r.now
	r.note(k.ID, string(k.State))
	// The active key comes first: a program from before there were states signs with
	// the first key.
	slices.SortStableFunc(r.keys, func(a, b storage.SigningKey) int { return cmp.Compare(order(a), order(b)) })
}

func order(k storage.SigningKey) int {
	return slices.Index([]storage.KeyState{storage.KeyActive, storage.KeyPending, storage.KeyRetired}, k.State)
}

func (r *round) destroy(kid string) {
	r.keys = slices.DeleteFunc(r.keys, func(k storage.SigningKey) bool { return k.ID == kid })
	r.note(kid, destroyed)
}

// errBusy says that others changed the set each time.
var errBusy = errors.New("the key set changes all the time")
