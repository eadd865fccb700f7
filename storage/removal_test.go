package storage_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"gatehouse.example/storage"
)

// interposed is a backend that runs something once, right before a call.
type interposed struct {
	storage.Backend
	call, key string
	run       func()
}

func (b *interposed) reach(call, key string) {
	if run := b.run; run != nil && b.call == call && b.key == key {
		b.run = nil
		run()
	}
}

func (b *interposed) Put(ctx context.Context, put storage.Put) (storage.Item, error) {
	b.reach("put", put.Key)
	return b.Backend.Put(ctx, put)
}

func (b *interposed) Delete(ctx context.Context, key string) error {
	b.reach("delete", key)
	return b.Backend.Delete(ctx, key)
}

func (b *interposed) IndexRemove(ctx context.Context, index, entry string) error {
	b.reach("unlist", index)
	return b.Backend.IndexRemove(ctx, index, entry)
}

// removing is a store in which others do something at one step of a removal, and the store of the others.
type removing struct {
	*storage.Store
	others *storage.Store
	at     *interposed
}

func newRemoving(t *testing.T, call, key string) removing {
	t.Helper()
	others, backend := newStore(t)
	at := &interposed{Backend: backend, call: call, key: storage.KeyPrefix + key}
	s, err := storage.New(at, storage.Options{Issuer: issuer, MasterKeys: [][]byte{[]byte("0123456789abcdef0123456789abcdef")}, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	return removing{s, others, at}
}

func mustDo(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func listedUsers(t *testing.T, s *storage.Store) (names []string) {
	t.Helper()
	for u, err := range s.Users(t.Context()) {
		mustDo(t, err)
		names = append(names, u.Name+" "+u.Subject)
	}
	return names
}

// TestRemovedWhileChanging: a person to whom something new leads while they are removed is removed with it.
func TestRemovedWhileChanging(t *testing.T) {
	s := newRemoving(t, "put", "user:ann")
	ctx := t.Context()
	passkey := storage.PasskeyAlias([]byte("new"))
	mustDo(t, s.others.CreateUser(ctx, storage.User{Name: "ann", Subject: "first"}))
	s.at.run = func() {
		ann, err := s.others.User(ctx, "ann")
		ann.Passkeys = []storage.Passkey{{ID: []byte("new")}}
		mustDo(t, err, s.others.PutAlias(ctx, passkey, storage.Alias{}.Leading("ann", "first")), s.others.UpdateUser(ctx, ann))
	}
	mustDo(t, s.DeleteUser(ctx, "ann", "first"))
	if _, err := s.others.User(ctx, "ann"); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("the person: %v", err)
	}
	if _, err := s.others.Alias(ctx, passkey); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("what led to the person: %v", err)
	}
}

// TestAddedWhileRemoved: whoever is added under a name while an earlier person of that name is removed stays,
// and is listed, at whatever step of the removal that happens, and whichever process removes the earlier one.
func TestAddedWhileRemoved(t *testing.T) {
	for name, step := range map[string]struct {
		call, key string
		again     bool // the others have removed the earlier person themselves
	}{
		"before the record ends": {"put", "user:ann", true},
		"before it is deleted":   {"delete", "user:ann", false},
		"before it is unlisted":  {"unlist", "users:all", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newRemoving(t, step.call, step.key)
			ctx := t.Context()
			mustDo(t, s.others.CreateUser(ctx, storage.User{Name: "ann", Subject: "first"}))
			added := errors.New("nobody")
			s.at.run = func() {
				if step.again {
					mustDo(t, s.others.DeleteUser(ctx, "ann", "first"))
				}
				added = s.others.CreateUser(ctx, storage.User{Name: "ann", Subject: "second"})
			}
			mustDo(t, s.DeleteUser(ctx, "ann", "first"))
			var want []string
			if step.again {
				mustDo(t, added)
				want = []string{"ann second"}
			} else if !errors.Is(added, storage.ErrConflict) { // the name is not free yet
				t.Errorf("a person added before the record is deleted: %v", added)
			}
			if got := listedUsers(t, s.others); !slices.Equal(got, want) {
				t.Errorf("people are %q; want %q", got, want)
			}
		})
	}
	s := newRemoving(t, "unlist", "groups:all")
	ctx := t.Context()
	mustDo(t, s.others.CreateGroup(ctx, storage.Group{Name: "readers", ID: "1"}))
	s.at.run = func() { mustDo(t, s.others.CreateGroup(ctx, storage.Group{Name: "readers", ID: "2"})) }
	mustDo(t, s.DeleteGroup(ctx, "readers"))
	for g, err := range s.others.Groups(ctx) {
		if err == nil && g.ID == "2" {
			return
		}
		t.Errorf("a group: %+v, %v", g, err)
	}
	t.Error("a group that was made while an earlier one was removed is not listed")
}

// TestRemovalOfADeadProcess: a process that dies between the steps of a removal leaves a name that another
// one removes: no entry is left of it.
func TestRemovalOfADeadProcess(t *testing.T) {
	s := newRemoving(t, "unlist", "users:all")
	ctx, die := context.WithCancel(t.Context())
	mustDo(t, s.others.CreateUser(ctx, storage.User{Name: "ann", Subject: "first"}))
	s.at.run = die
	if err := s.DeleteUser(ctx, "ann", "first"); err == nil {
		t.Fatal("it goes on")
	}
	if _, err := s.others.User(t.Context(), "ann"); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("the person: %v", err)
	}
	mustDo(t, s.others.DeleteUser(t.Context(), "ann", "first"))
	if counts, err := s.others.Counts(t.Context()); counts.People != 0 || err != nil {
		t.Errorf("%d people are listed, %v", counts.People, err)
	}
}

// TestUnreadPersonIsNoUpdate: an update of somebody who was not read, such as one who was gone when others
// looked, makes nobody.
func TestUnreadPersonIsNoUpdate(t *testing.T) {
	s, _ := newStore(t)
	holder, err := s.Holder(t.Context(), "ann", nil)
	mustDo(t, err)
	holder.User.Name, holder.User.Subject = "ann", "first"
	if err := s.UpdateUser(t.Context(), holder.User); !errors.Is(err, storage.ErrConflict) {
		t.Errorf("UpdateUser: %v", err)
	}
	if _, err := s.User(t.Context(), "ann"); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("the person: %v", err)
	}
}
