package storage_test

import (
	"bytes"
	"errors"
	"testing"

	"gatehouse.example/storage"
)

// TestTableIsPublic: where every other record is sealed, one of a table is not, and a store
// without master keys reads and writes it. A secret in it is sealed by itself.
func TestTableIsPublic(t *testing.T) {
	t.Parallel()
	s := newTimed(t)
	if err := s.CreateUser(t.Context(), storage.User{Name: "reader"}); err != nil { // the store begins sealed
		t.Fatal(err)
	}
	state, rows := s.CatalogueTables()
	if _, err := rows.Put(t.Context(), storage.TableRecord{ID: "a", Head: 1, Tail: [][]byte{[]byte("x"), []byte("y")}}, storage.Absent); err != nil {
		t.Fatal(err)
	}
	bare, err := storage.New(s.backend, storage.Options{Issuer: issuer})
	if err != nil {
		t.Fatal(err)
	}
	_, others := bare.CatalogueTables()
	var item storage.Item
	for keys, table := range []storage.Table{others, rows} {
		if item, err = table.Get(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		var head int
		tail, err := table.Decode(item, &head)
		if err != nil || head != 1 || string(tail) != "xy" {
			t.Errorf("a store with %d keys reads %d, %q, %v", keys, head, tail, err)
		}
	}
	if _, err := others.Put(t.Context(), storage.TableRecord{ID: "a", Head: 2}, storage.Unchanged(item.Version)); err != nil {
		t.Errorf("a store without keys: %v", err)
	}
	secret := []byte("secret")
	sealed, err := state.Seal("state", secret)
	if err != nil || bytes.Contains(sealed, secret) {
		t.Fatalf("%x, %v", sealed, err)
	}
	if opened, err := state.Open("state", sealed); err != nil || !bytes.Equal(opened, secret) {
		t.Errorf("%q, %v", opened, err)
	}
	if _, err := rows.Open("state", sealed); !errors.Is(err, storage.ErrRecord) {
		t.Errorf("a secret that was moved to another table: %v", err)
	}
}

// TestTableTouch: an item that was touched has the same contents, and a write that expects the
// version before is a conflict.
func TestTableTouch(t *testing.T) {
	t.Parallel()
	s := newTimed(t)
	_, rows := s.CatalogueTables()
	before, err := rows.Put(t.Context(), storage.TableRecord{ID: "a", Head: "before"}, storage.Absent)
	if err != nil {
		t.Fatal(err)
	}
	after, err := rows.Touch(t.Context(), "a", before)
	if err != nil || !bytes.Equal(after.Data, before.Data) || after.Version == before.Version {
		t.Errorf("it has become %q, %v", after.Data, err)
	}
	there, err := rows.Put(t.Context(), storage.TableRecord{ID: "a", Head: "late"}, storage.Unchanged(before.Version))
	if !errors.Is(err, storage.ErrConflict) || there.Version != after.Version {
		t.Errorf("a late write: %v, with %x there", err, there.Version)
	}
	if _, err := rows.Touch(t.Context(), "a", before); !errors.Is(err, storage.ErrConflict) {
		t.Errorf("touching what has changed: %v", err)
	}
}
