package keyring

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"gatehouse.example/storage"
)

// round is one change of the key set: the new keys, and the steps that led to them. It takes
// effect when the set is swapped.
type round struct {
	cfg     Config
	now     time.Time
	keys    []storage.SigningKey
	changes []change
}

// change is the new state of a key.
type change struct {
	kid, state string
}

const destroyed = "destroyed"

func (r *round) note(kid, became string) { r.changes = append(r.changes, change{kid, became}) }

// find returns the index of the first key in a state, or -1.
func (r *round) find(state storage.KeyState) int {
	return slices.IndexFunc(r.keys, func(k storage.SigningKey) bool { return k.State == state })
}

// begin makes the first key of an issuer. It signs at once, because no cache can contain an
// older set.
func (r *round) begin() error {
	if err := r.make(); err != nil {
		return err
	}
	r.activate(0)
	return nil
}

// due performs every step that is due at r.now.
func (r *round) due() error {
	for _, k := range slices.Clone(r.keys) {
		if k.State == storage.KeyRetired && !r.now.Before(k.Retired.Add(r.cfg.retention())) {
			r.destroy(k.ID)
		}
	}
	next := r.find(storage.KeyPending)
	if next >= 0 {
		if !r.now.Before(r.keys[next].Created.Add(r.cfg.publishTime())) {
			r.activate(next)
		}
		return nil
	}
	active := r.find(storage.KeyActive)
	if r.cfg.RotateEvery < 0 || active < 0 {
		return nil
	}
	// The next key is made early enough to be published before it must sign.
	if r.now.Before(r.keys[active].Activated.Add(r.cfg.RotateEvery - r.cfg.publishTime())) {
		return nil
	}
	return r.make()
}

// rotate makes the next key unless there is a pending one, and activates it at once if now is
// set. Otherwise a server activates it when it has been published for long enough.
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

// revoke destroys a key before its time. A new key, and not the pending one, replaces an
// active key at once: resources fetch the set when they see an unknown key, and so learn
// soonest which key was revoked.
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

// activate makes a key sign and retires the previous one. A retired key signs nothing any
// more, so its private key is deleted.
func (r *round) activate(i int) {
	if old := r.find(storage.KeyActive); old >= 0 {
		k := &r.keys[old]
		k.State, k.Retired, k.Private = storage.KeyRetired, r.now, nil
		r.note(k.ID, string(k.State))
	}
	k := &r.keys[i]
	k.State, k.Activated = storage.KeyActive, r.now
	r.note(k.ID, string(k.State))
	// The active key comes first: versions without key states sign with the first key.
	slices.SortStableFunc(r.keys, func(a, b storage.SigningKey) int { return cmp.Compare(order(a), order(b)) })
}

func order(k storage.SigningKey) int {
	return slices.Index([]storage.KeyState{storage.KeyActive, storage.KeyPending, storage.KeyRetired}, k.State)
}

func (r *round) destroy(kid string) {
	r.keys = slices.DeleteFunc(r.keys, func(k storage.SigningKey) bool { return k.ID == kid })
	r.note(kid, destroyed)
}

// errBusy means that other processes changed the set during every attempt.
var errBusy = errors.New("other processes changed the key set during every attempt")
