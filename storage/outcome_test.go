package storage_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse.example/storage"
)

// elsewhere is a store whose first answer to a write is lost, and whose place another copy takes over.
type elsewhere struct {
	storage.Backend
	asked bool
}

func (e *elsewhere) Put(ctx context.Context, put storage.Put) (storage.Item, error) {
	switch {
	case put.On == "":
		return e.Backend.Put(ctx, put)
	case e.asked:
		return storage.Item{}, storage.ErrLineage
	}
	e.asked = true
	return storage.Item{}, storage.ErrUncertain
}

// TestTakeoverSettles: when a write is sent again and another copy answers, it is certain that the copy does
// not have it. So nothing is written to the copy for it.
func TestTakeoverSettles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, backend := newStore(t)
		s, err := storage.New(&elsewhere{Backend: backend}, storage.Options{Issuer: issuer, Now: now})
		if err != nil {
			t.Fatal(err)
		}
		life := storage.Lifetime{Expires: now().Add(time.Hour), AccessUntil: now().Add(time.Hour)}
		g := storage.Grant{ID: "AAECAwQFBgcICQoLDA0ODw", State: storage.GrantCode, Lineage: "before"}
		if _, err := s.Redeem(t.Context(), g, life); !errors.Is(err, storage.ErrLineage) || errors.Is(err, storage.ErrUncertain) {
			t.Errorf("Redeem: %v", err)
		}
	})
}

// unreachable is a store that applies a write, loses the answer, and cannot be reached any more.
type unreachable struct {
	storage.Backend
	gone bool
}

func (u *unreachable) Put(ctx context.Context, put storage.Put) (storage.Item, error) {
	if u.gone {
		return storage.Item{}, errors.New("the connection is refused")
	}
	u.gone = true
	_, err := u.Backend.Put(ctx, put)
	return storage.Item{}, errors.Join(err, storage.ErrUncertain)
}

// TestRefusalSettlesNothing: a write whose answer was lost may have happened, however certain it is that
// sending it again had no effect.
func TestRefusalSettlesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, backend := newStore(t)
		s, err := storage.New(&unreachable{Backend: backend}, storage.Options{Issuer: issuer, Now: now})
		if err != nil {
			t.Fatal(err)
		}
		err = s.TakeOnce(t.Context(), "purpose", "value", now().Add(time.Hour))
		if !errors.Is(err, storage.ErrUncertain) || !errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("TakeOnce: %v", err)
		}
		if taken, err := s.Taken(t.Context(), "purpose", "value"); !taken || err != nil {
			t.Errorf("it was written: %t, %v", taken, err)
		}
	})
}

// TestForgedInTheWay: a record that is in the way of another one is no conflict if no server wrote it: whoever
// writes to the store could otherwise use up what may be used once, unnoticed.
func TestForgedInTheWay(t *testing.T) {
	s, backend := newStore(t)
	alarms := 0
	s.OnForged(func(error) { alarms++ })
	take := func() error { return s.TakeOnce(t.Context(), "purpose", "value", now().Add(time.Hour)) }
	if err := take(); err != nil {
		t.Fatal(err)
	}
	if err := take(); !errors.Is(err, storage.ErrConflict) || errors.Is(err, storage.ErrRecord) || alarms != 0 {
		t.Errorf("the second time: %v, %d alarms", err, alarms)
	}
	keys, _, err := backend.Scan(t.Context(), storage.KeyPrefix+"once:", "", 2)
	if err != nil || len(keys) != 1 {
		t.Fatalf("%q, %v", keys, err)
	}
	item, err := backend.Get(t.Context(), keys[0])
	if err != nil {
		t.Fatal(err)
	}
	for what, put := range map[string]storage.Put{
		"under another operation": {Data: item.Data, Operation: storage.Version{1}},
		"without a seal":          {Data: []byte("\x01\x00\x00\x00\x00\x00\x00\x00\x00{}"), Operation: storage.Version{2}},
	} {
		before := alarms
		put.Key, put.If = keys[0], storage.Always
		if _, err := backend.Put(t.Context(), put); err != nil {
			t.Fatal(err)
		}
		if err := take(); !errors.Is(err, storage.ErrForged) || errors.Is(err, storage.ErrConflict) || alarms == before {
			t.Errorf("%s: %v, %d alarms", what, err, alarms-before)
		}
	}
}

// unsettled is a store that carries the first write out and never says so. Something else happens before the
// next one.
type unsettled struct {
	storage.Backend
	first     storage.Version
	meanwhile func()
}

func (u *unsettled) Put(ctx context.Context, put storage.Put) (storage.Item, error) {
	if u.first == (storage.Version{}) {
		u.first = put.Operation
	}
	if put.Operation == u.first {
		_, _ = u.Backend.Put(ctx, put)
		return storage.Item{}, storage.ErrUncertain
	}
	u.meanwhile()
	return u.Backend.Put(ctx, put)
}

// TestMarkRevivesNothing: that a redemption stays without an answer is noted on what it wrote only. A grant
// that was revoked meanwhile stays revoked, and one that is gone does not come back.
func TestMarkRevivesNothing(t *testing.T) {
	for what, test := range map[string]struct {
		meanwhile func(*storage.Store, storage.Backend, string) error
		want      func(storage.Grant, error) bool
	}{
		"nothing": {
			func(*storage.Store, storage.Backend, string) error { return nil },
			func(g storage.Grant, err error) bool {
				return err == nil && g.State == storage.GrantActive && g.Unanswered
			},
		},
		"a revocation": {
			func(s *storage.Store, _ storage.Backend, id string) error {
				return s.Revoke(context.Background(), id, "test")
			},
			func(g storage.Grant, err error) bool { return err == nil && g.State == storage.GrantRevoked },
		},
		"its removal": {
			func(_ *storage.Store, b storage.Backend, id string) error {
				return b.Delete(context.Background(), storage.KeyPrefix+"grant:"+id)
			},
			func(_ storage.Grant, err error) bool { return errors.Is(err, storage.ErrNotFound) },
		},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, backend := newStore(t)
				prepared, _ := prepare(t, s)
				if err := s.CreateGrant(t.Context(), prepared); err != nil {
					t.Fatal(err)
				}
				g, err := s.Grant(t.Context(), prepared.ID)
				if err != nil {
					t.Fatal(err)
				}
				unsure, err := storage.New(&unsettled{Backend: backend, meanwhile: func() {
					if err := test.meanwhile(s, backend, g.ID); err != nil {
						t.Error(err)
					}
				}}, storage.Options{Issuer: issuer, MasterKeys: [][]byte{[]byte("0123456789abcdef0123456789abcdef")}, Now: now})
				if err != nil {
					t.Fatal(err)
				}
				life := storage.Lifetime{Expires: now().Add(time.Hour), AccessUntil: now().Add(time.Hour)}
				if _, err := unsure.Redeem(t.Context(), g, life); !errors.Is(err, storage.ErrUncertain) {
					t.Errorf("Redeem: %v", err)
				}
				if g, err := s.Grant(t.Context(), g.ID); !test.want(g, err) {
					t.Errorf("the grant is %s, unanswered %t, %v", g.State, g.Unanswered, err)
				}
			})
		})
	}
}
