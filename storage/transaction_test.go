package storage_test

import (
	"errors"
	"testing"
	"time"

	"gatehouse.example/storage"
)

// TestDecidedOnce: a transaction that was decided in one window is decided: what another window has read
// before changes nothing any more, wherever the transaction is kept. Of two changes the first counts.
func TestDecidedOnce(t *testing.T) {
	s, _ := newStore(t)
	ctx := t.Context()
	begun := storage.Transaction{ID: "id", Browser: storage.HashSecret("cookie"), ClientID: "client", Expires: now().Add(time.Hour)}
	sealed, err := s.SealTransaction(begun)
	if err != nil {
		t.Fatal(err)
	}
	stored := begun
	stored.ID = "stored"
	if err := s.CreateTransaction(ctx, stored); err != nil {
		t.Fatal(err)
	}
	for id, kept := range map[string][]byte{"id": sealed, "stored": nil} {
		var windows [3]storage.Transaction
		for i := range windows {
			if windows[i], err = s.ResumeTransaction(ctx, id, "cookie", kept); err != nil || windows[i].Stored() != (kept == nil) {
				t.Fatalf("%s: %v", id, err)
			}
		}
		one, another, late := windows[0], windows[1], windows[2]
		if one.Stored() {
			one.ClientID, another.ClientID = "one", "another"
			if err := s.UpdateTransaction(ctx, one); err != nil {
				t.Errorf("the first change: %v", err)
			}
			if err := s.UpdateTransaction(ctx, another); !errors.Is(err, storage.ErrNotFound) {
				t.Errorf("the second change: %v", err)
			}
			if one, err = s.Transaction(ctx, id); err != nil || one.ClientID != "one" {
				t.Errorf("after two changes it is of the client %q, %v", one.ClientID, err)
			}
			late = one
		}
		if err := s.TakeTransaction(ctx, one); err != nil {
			t.Errorf("%s: the decision: %v", id, err)
		}
		for what, err := range map[string]error{"another decision": s.TakeTransaction(ctx, late), "a late change": s.UpdateTransaction(ctx, late)} {
			if !errors.Is(err, storage.ErrNotFound) {
				t.Errorf("%s: %s: %v", id, what, err)
			}
		}
		if _, err := s.ResumeTransaction(ctx, id, "cookie", kept); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("%s: it goes on after the decision: %v", id, err)
		}
	}
}
