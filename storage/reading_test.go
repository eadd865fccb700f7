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

// halting is a store in which one of several records is no item, and that stops to answer then.
type halting struct{ storage.Backend }

func (halting) GetMany(context.Context, []string) ([]storage.Item, error) {
	return nil, storage.ErrRecord
}

func (halting) Get(context.Context, string) (storage.Item, error) {
	return storage.Item{}, errors.New("it does not answer")
}

// TestReadingStops: a reading that ends early is an error of the whole, because the records that were not
// read any more look like empty ones.
func TestReadingStops(t *testing.T) {
	_, backend := newStore(t)
	s, err := storage.New(halting{backend}, storage.Options{Issuer: issuer, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	one, several := s.Reading(), s.Reading()
	one.User("ann")
	several.User("ann")
	several.User("bob")
	for n, read := range []*storage.Reading{one, several} {
		if err := read.Read(t.Context()); !errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("reading %d: %v", n, err)
		}
	}
}

// TestStoredTransactionOfABrowser: a transaction that is on record goes on in the browser in which it began
// only, and so says a reading of it with others.
func TestStoredTransactionOfABrowser(t *testing.T) {
	s, _ := newStore(t)
	stored := storage.Transaction{ID: "id", Browser: storage.HashSecret("cookie"), ClientID: "client", Expires: now().Add(time.Hour)}
	if err := s.CreateTransaction(t.Context(), stored); err != nil {
		t.Fatal(err)
	}
	for browser, want := range map[string]error{"cookie": nil, "Cookie": storage.ErrNotFound, "": storage.ErrNotFound} {
		read := s.Reading()
		_, resume := read.Transaction("id", browser, nil)
		user := read.User("nobody")
		if err := read.Read(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got, err := resume(); !errors.Is(err, want) || (got.ClientID == "client") != (want == nil) {
			t.Errorf("with the cookie %q it is of the client %q, %v", browser, got.ClientID, err)
		}
		if _, err := user(); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("the record beside it: %v", err)
		}
		if _, err := s.ResumeTransaction(t.Context(), "id", browser, nil); !errors.Is(err, want) {
			t.Errorf("alone, with the cookie %q: %v", browser, err)
		}
	}
}

// TestUnsealedTogether: a process that has not looked at the switch for a while does so before it accepts a
// record without a seal, also one that it reads together with others.
func TestUnsealedTogether(t *testing.T) {
	_, backend := newStore(t)
	ctx, at := t.Context(), now()
	open := func(keys ...[]byte) *storage.Store {
		s, err := storage.New(backend, storage.Options{Issuer: issuer, MasterKeys: keys, Now: func() time.Time { return at }})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	key := []byte("0123456789abcdef0123456789abcdef")
	earlier, mover := open(), open(key)
	must(earlier.SwapKeySet(ctx, storage.KeySet{}))
	var late [2]*storage.Store
	for i := range late {
		late[i] = open(key)
		if form, _, err := late[i].Form(ctx); form != storage.FormPlain || err != nil {
			t.Fatalf("records are %s, %v", form, err)
		}
	}
	for range 2 {
		_, err := mover.SealRecords(ctx, nil)
		must(err)
		at = at.Add(2 * time.Minute)
	}
	must(mover.CreateUser(ctx, storage.User{Name: "ann", Subject: "a"}))
	must(earlier.CreateUser(ctx, storage.User{Name: "eve", Subject: "e"}))
	session := storage.Session{Subject: "e", AuthTime: at, Expires: at.Add(time.Hour)}
	must(earlier.CreateSession(ctx, "cookie", session))

	read := late[0].Reading()
	eve, nobody := read.User("eve"), read.User("nobody")
	must(read.Read(ctx))
	if _, err := eve(); !errors.Is(err, storage.ErrForged) {
		t.Errorf("a person without a seal: %v", err)
	}
	if _, err := nobody(); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("the record beside it: %v", err)
	}
	page, err := late[1].RecentSessions(ctx, "e", 0, "", 10)
	if err != nil || len(page.Items) != 0 || page.Unreadable != 1 {
		t.Errorf("a list with a session without a seal: %+v, %v", page, err)
	}
}
