package storage_test

import (
	"errors"
	"testing"
	"time"

	"gatehouse.example/storage"
	"gatehouse.example/storage/storagetest"
)

// TestB2WhoYields: while room is short, what strangers and mirrors make is ErrFull and not
// written, and what belongs to somebody who is known is written.
func TestB2WhoYields(t *testing.T) {
	plain := newPlain()
	faults := storagetest.NewFaults(plain)
	s, err := storage.New(faults, storage.Options{Issuer: issuer, MasterKeys: [][]byte{make([]byte, 32)}, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	w := openCatalogue(t, s)
	end := now().Add(time.Hour)
	yields := map[string]func() error{
		"a client that registers":       func() error { return s.CreateClient(t.Context(), storage.Client{ID: "registers", Expires: end}) },
		"a large request":               func() error { return s.CreateTransaction(t.Context(), storage.Transaction{ID: "large", Expires: end}) },
		"a new record of the catalogue": func() error { return w.Commit(t.Context(), []storage.CatalogueEntry{server("a", "1", "x")}, nil) },
	}
	goesOn := map[string]func() error{
		"a client of the operator": func() error { return s.CreateClient(t.Context(), storage.Client{ID: "operator"}) },
		"a session":                func() error { return s.CreateSession(t.Context(), "secret", storage.Session{Expires: end}) },
		"an assertion":             func() error { return s.TakeAssertion(t.Context(), "c", "jti", end) },
		"a person":                 func() error { return s.CreateUser(t.Context(), storage.User{Name: "reader"}) },
	}
	faults.SetRoom(storage.RoomTight)
	for what, write := range yields {
		before := plain.changes()
		if err := write(); !errors.Is(err, storage.ErrFull) || !errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("%s: error %v, want ErrFull, which is ErrUnavailable", what, err)
		}
		if plain.changes() != before {
			t.Errorf("%s was written", what)
		}
	}
	for what, write := range goesOn {
		if err := write(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	faults.SetRoom(storage.RoomEnough)
	for what, write := range yields {
		if err := write(); err != nil {
			t.Errorf("%s, with room again: %v", what, err)
		}
	}
}
