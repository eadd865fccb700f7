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
