package storage_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"gatehouse.example/storage"
	"gatehouse.example/storage/redis"
)

// TestKnownRecordsAreJudged: a record that was read before is judged by what the store has now: its
// bytes, their version, their place and the time.
func TestKnownRecordsAreJudged(t *testing.T) {
	at := now()
	backend, err := redis.Open(t.Context(), redis.Options{URL: "embedded:"})
	if err != nil {
		t.Fatal(err)
	}
	open := func() *storage.Store {
		s, err := storage.New(backend, storage.Options{
			Issuer: issuer, MasterKeys: [][]byte{[]byte("0123456789abcdef0123456789abcdef")}, Now: func() time.Time { return at },
		})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s, other := open(), open()
	defer s.Close()
	if err := s.CreateUser(t.Context(), storage.User{Name: "ann", Subject: "1", Created: at}); err != nil {
		t.Fatal(err)
	}
	read := func(name string) (storage.User, error) {
		_, _ = s.User(t.Context(), name)
		return s.User(t.Context(), name)
	}
	ann, err := read("ann")
	if err != nil || ann.Subject != "1" {
		t.Fatal(ann, err)
	}
	genuine, err := backend.Get(t.Context(), storage.KeyPrefix+"user:ann")
	if err != nil {
		t.Fatal(err)
	}
	store := func(id string, item storage.Item) {
		t.Helper()
		key := storage.KeyPrefix + "user:" + id
		if err := backend.Delete(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		if _, err := backend.Put(t.Context(), storage.Put{Key: key, Data: item.Data, Operation: item.Version}); err != nil {
			t.Fatal(err)
		}
	}
	changed, later := storage.Item{Data: slices.Clone(genuine.Data), Version: genuine.Version}, genuine
	changed.Data[len(changed.Data)-2] ^= 1
	later.Version[0] ^= 1
	for name, forged := range map[string]struct {
		id   string
		item storage.Item
	}{"another byte": {"ann", changed}, "another version": {"ann", later}, "another place": {"bob", genuine}} {
		store(forged.id, forged.item)
		if u, err := read(forged.id); !errors.Is(err, storage.ErrForged) {
			t.Errorf("%s: %+v, %v", name, u, err)
		}
	}
	store("ann", genuine)
	if ann, err = read("ann"); err != nil {
		t.Fatal(err)
	}
	ann.Subject = "2"
	if err := other.UpdateUser(t.Context(), ann); err != nil {
		t.Fatal(err)
	}
	if ann, err = read("ann"); err != nil || ann.Subject != "2" {
		t.Errorf("after a change by another process: %+v, %v", ann, err)
	}
	if err := s.CreateSession(t.Context(), "secret", storage.Session{UserName: "ann", AuthTime: at, Expires: at.Add(time.Second)}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []error{nil, nil, storage.ErrNotFound} {
		if session, err := s.Session(t.Context(), "secret"); !errors.Is(err, want) || (want != nil) == (session.UserName == "ann") {
			t.Errorf("%+v, %v; want %v", session, err, want)
		}
		at = at.Add(time.Second / 2)
	}
}
