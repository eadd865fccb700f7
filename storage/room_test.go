package storage_test

import (
	"errors"
	"testing"
	"time"

	"gatehouse.example/storage"
	"gatehouse.example/storage/internal/testkit"
	"gatehouse.example/storage/redis"
	"gatehouse.example/storage/storagetest"
)

// TestWhoYields: while room is short, records of unauthenticated clients are ErrFull and not
// written, and those of known people and clients are. For a catalogue see TestWhileRoomIsShort
// there.
func TestWhoYields(t *testing.T) {
	backend, err := redis.Open(t.Context(), redis.Options{URL: "embedded:"})
	if err != nil {
		t.Fatal(err)
	}
	defer backend.Close()
	written := testkit.NewIsolated(backend)
	faults := storagetest.NewFaults(written)
	s, err := storage.New(faults, storage.Options{Issuer: issuer, MasterKeys: [][]byte{make([]byte, 32)}, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	end := now().Add(time.Hour)
	yields := map[string]func() error{
		"a client that registers": func() error { return s.CreateClient(t.Context(), storage.Client{ID: "registers", Expires: end}) },
		"a large request":         func() error { return s.CreateTransaction(t.Context(), storage.Transaction{ID: "large", Expires: end}) },
	}
	goesOn := map[string]func() error{
		"a client of the operator": func() error { return s.CreateClient(t.Context(), storage.Client{ID: "operator"}) },
		"a session":                func() error { return s.CreateSession(t.Context(), "secret", storage.Session{Expires: end}) },
		"an assertion":             func() error { return s.TakeAssertion(t.Context(), "c", "jti", end) },
		"a person":                 func() error { return s.CreateUser(t.Context(), storage.User{Name: "reader"}) },
	}
	faults.SetRoom(storage.RoomTight)
	for what, write := range yields {
		before := len(written.Writes())
		if err := write(); !errors.Is(err, storage.ErrFull) || !errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("%s: error %v, want ErrFull, which is ErrUnavailable", what, err)
		}
		if len(written.Writes()) != before {
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
