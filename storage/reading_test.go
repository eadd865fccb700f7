package storage_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"gatehouse.example/storage"
)

// TestReading: each record of a reading has its own outcome, which is that of the method of the same
// name: a record that is not there and one that is unreadable spoil no other.
func TestReading(t *testing.T) {
	s, backend := newStore(t)
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(s.CreateUser(ctx, storage.User{Name: "ada", Subject: "sub"}))
	must(s.CreateUser(ctx, storage.User{Name: "bob", Subject: "other"}))
	must(s.CreateClient(ctx, storage.Client{ID: "client"}))
	must(s.PutConsent(ctx, storage.Consent{Subject: "sub", ClientID: "client", Given: []storage.Remembered{{At: time.Unix(0, 0)}}}))
	session := storage.Session{UserName: "ada", Subject: "sub", AuthTime: s.Now(), Expires: s.Now().Add(time.Hour)}
	must(s.CreateSession(ctx, "cookie", session))

	read := s.Reading()
	user, nobody, client, absent := read.User("ada"), read.User("nobody"), read.Client("client"), read.Client("absent")
	consent, in := read.Consent("sub", "client"), read.Session("cookie")
	must(read.Read(ctx))
	u, err := user()
	must(err)
	must(s.UpdateUser(ctx, u)) // it has its version
	if _, err := nobody(); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("a missing person: %v", err)
	}
	c, err := client()
	must(err)
	must(s.RemoveClient(ctx, c, "test"))
	if _, err := absent(); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("a missing client: %v", err)
	}
	if c, err := consent(); err != nil || c.Subject != "sub" || s.PutConsent(ctx, c) != nil {
		t.Errorf("a consent: %v, %+v", err, c)
	}
	if l, err := in(); err != nil || l.ID() != storage.SessionID("cookie") || s.UpdateSession(ctx, l) != nil {
		t.Errorf("a session: %v, %+v", err, l)
	}

	_, err = backend.Put(ctx, storage.Put{Key: storage.KeyPrefix + "user:eve", Data: []byte("no record"), Operation: storage.Version{1}})
	must(err)
	read = s.Reading()
	eve := read.User("eve")
	removed, bob := read.Client("client"), read.User("bob")
	must(read.Read(ctx))
	var gone *storage.RemovedError
	if _, err := removed(); !errors.As(err, &gone) {
		t.Errorf("a removed client: %v", err)
	}
	if b, err := bob(); err != nil || b.Subject != "other" {
		t.Errorf("a person beside it: %v", err)
	}
	if _, err := eve(); !errors.Is(err, storage.ErrRecord) {
		t.Errorf("an unreadable person beside it: %v", err)
	}
	must(s.Reading().Read(ctx))
	over, cancel := context.WithCancel(ctx)
	cancel()
	if err := read.Read(over); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("a store that does not answer: %v", err)
	}
}
