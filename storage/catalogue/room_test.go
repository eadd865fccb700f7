package catalogue_test

import (
	"errors"
	"testing"

	"gatehouse.example/storage"
	"gatehouse.example/storage/catalogue"
	"gatehouse.example/storage/storagetest"
)

// TestWhileRoomIsShort: while the store is short of memory, changes of rows are refused with
// ErrFull, so that a mirror does not use the memory that sign-ins need. The progress is written.
func TestWhileRoomIsShort(t *testing.T) {
	plain := newPlain()
	faults := storagetest.NewFaults(plain)
	w := openCatalogue(t, catalogueOn(t, faults))
	defer w.Close(t.Context())
	page := []catalogue.Entry{server("a", "1", "x")}
	faults.SetRoom(storage.RoomTight)
	before := plain.changes()
	if err := w.Commit(t.Context(), page, nil); !errors.Is(err, storage.ErrFull) || !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("a row: error %v, want ErrFull, which is ErrUnavailable", err)
	}
	if plain.changes() != before {
		t.Error("it was written")
	}
	if err := w.Commit(t.Context(), nil, []byte("1")); err != nil {
		t.Errorf("progress alone: %v", err)
	}
	faults.SetRoom(storage.RoomEnough)
	if err := w.Commit(t.Context(), page, nil); err != nil {
		t.Errorf("with room again: %v", err)
	}
}
