package storagetest

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gatehouse.example/storage"
	"gatehouse.example/storage/internal/testkit"
)

// clock is a clock that the test sets.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock {
	return &clock{now: time.Date(2031, time.March, 4, 5, 6, 7, 0, time.UTC)}
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// later returns an expiry that is far enough away for every test.
func (c *clock) later() time.Time { return c.Now().Add(time.Hour) }

// isolated is a backend with its own keys, and the key under which records are sealed.
type isolated struct {
	*testkit.Isolated
	master []byte
}

func (b *isolated) writes() []storage.Put { return b.Writes() }
func (b *isolated) removals() []string    { return b.Removals() }

func (b *isolated) overwrite(t *testing.T, key string, data []byte) {
	t.Helper()
	b.Overwrite(t, key, data)
}

func (b *isolated) item(t *testing.T, key string) storage.Item {
	t.Helper()
	return b.Item(t, key)
}

func (b *isolated) restore(t *testing.T, key string, older storage.Item) {
	t.Helper()
	b.Restore(t, key, older)
}

func (b *isolated) remove(t *testing.T, key string) {
	t.Helper()
	b.Remove(t, key)
}

// last returns the last write.
func (b *isolated) last(t *testing.T) storage.Put {
	t.Helper()
	writes := b.writes()
	if len(writes) == 0 {
		t.Fatal("nothing was written")
	}
	return writes[len(writes)-1]
}

// edit changes the JSON of a record, as a program with the master key could. A grant has JSON
// afterwards, as programs that seal and know no other body write it.
func (f *fixture) edit(t *testing.T, key string, change func(members map[string]any)) {
	t.Helper()
	head, body := f.parts(t, key)
	if id, ok := strings.CutPrefix(key, grantKey("")); ok {
		body = toJSON(t, f.read(t, id))
	}
	var members map[string]any
	if err := json.Unmarshal(body, &members); err != nil {
		t.Fatal(err)
	}
	change(members)
	data := slices.Concat(head, toJSON(t, members))
	f.backend.restore(t, key, SealAnew(t, f.backend.master, issuer, key, storage.Item{Data: data, Version: operation()}))
}

// parts returns what is before the body of a record, and the body.
func (f *fixture) parts(t *testing.T, key string) (head, body []byte) {
	t.Helper()
	data := f.backend.item(t, key).Data
	header := 9 // the encoding version and the expiry
	if data[0] == 2 {
		header += 4 + 16 // the name of the master key and the MAC
	}
	return data[:header], data[header:]
}

func toJSON(t *testing.T, v any) []byte {
	t.Helper()
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// The names of keys and indexes are a part of the stored format: a later program must find what
// an earlier one wrote.
const (
	clientsByUse  = "gatehouse:clients:by-use"
	clientsUnused = "gatehouse:clients:unused"
)

func grantKey(id string) string             { return "gatehouse:grant:" + id }
func clientKey(id string) string            { return "gatehouse:client:" + id }
func softwareUnused(software string) string { return "gatehouse:software-unused:" + software }
func userGrants(subject string) string      { return "gatehouse:user-grants:" + subject }
func clientGrants(clientID string) string   { return "gatehouse:client-grants:" + clientID }

const issuer = "https://issuer.example.com"

// fixture is a Store on the backend under test, with access to what is below it.
type fixture struct {
	*storage.Store
	clock   *clock
	faults  *Faults
	backend *isolated
	keys    [][]byte
}

func newFixture(t *testing.T, b storage.Backend) *fixture {
	t.Helper()
	f := &fixture{clock: newClock(), keys: [][]byte{masterKey()}}
	f.backend = &isolated{Isolated: testkit.NewIsolated(b), master: f.keys[0]}
	f.faults = NewFaults(f.backend)
	f.Store = f.store(t, issuer, f.keys...)
	_, err := f.SealRecords(t.Context(), nil) // so that the key set exists
	wantError(t, "SealRecords", err, nil)
	return f
}

// untilLost returns a context that ends as soon as the request or the reply of one write was lost.
func (f *fixture) untilLost(t *testing.T) (context.Context, context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	f.faults.whenLost(cancel)
	return ctx, cancel
}

// store returns another Store on the same records.
func (f *fixture) store(t *testing.T, issuer string, keys ...[]byte) *storage.Store {
	t.Helper()
	return f.storeWithin(t, unhurried, issuer, keys...)
}

// unhurried is the time for a write in tests that do not depend on it: the machine may be busy
// with other work.
const unhurried = time.Minute

// storeWithin is store with another time for a write.
func (f *fixture) storeWithin(t *testing.T, within time.Duration, issuer string, keys ...[]byte) *storage.Store {
	t.Helper()
	s, err := storage.New(f.faults, storage.Options{Issuer: issuer, MasterKeys: keys, Now: f.clock.Now, WriteTime: within})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// life returns the lifetime of a redeemed grant.
func (f *fixture) life() storage.Lifetime {
	now := f.clock.Now()
	return storage.Lifetime{
		Expires:     now.Add(90 * 24 * time.Hour),
		IdleExpires: now.Add(30 * 24 * time.Hour),
		AccessUntil: now.Add(5 * time.Minute),
	}
}

// prepare returns a grant that is not stored, with its code.
func (f *fixture) prepare(t *testing.T, refreshable bool) (storage.Grant, string) {
	t.Helper()
	g, code, err := f.PrepareGrant(storage.NewGrant{
		ClientID: unique("client"), Subject: unique("subject"),
		Resources: []string{"https://notes.example.com/mcp"}, Scopes: []string{"notes:read", "notes:write"},
		AuthTime: f.clock.Now().Add(-time.Minute), RedirectURI: "http://127.0.0.1:1234/callback",
		Challenge: "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM", Refreshable: refreshable, CodeTTL: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	return g, code
}

// grant returns a stored grant whose code is not redeemed.
func (f *fixture) grant(t *testing.T, refreshable bool) (storage.Grant, string) {
	t.Helper()
	g, code := f.prepare(t, refreshable)
	if err := f.CreateGrant(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	return f.read(t, g.ID), code
}

// active returns a stored grant whose code was redeemed, with refresh tokens.
func (f *fixture) active(t *testing.T) storage.Grant {
	t.Helper()
	g, _ := f.grant(t, true)
	g, err := f.Redeem(t.Context(), g, f.life())
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// lineage returns the lineage that answers now.
func (f *fixture) lineage(t *testing.T) storage.Lineage {
	t.Helper()
	l, err := f.faults.Lineage(t.Context())
	wantError(t, "Lineage", err, nil)
	return l
}

// transaction returns a stored transaction that is not decided.
func (f *fixture) transaction(t *testing.T) storage.Transaction {
	t.Helper()
	made := storage.Transaction{ID: unique("transaction"), ClientID: "c", State: "state", Created: f.clock.Now(), Expires: f.clock.later()}
	wantError(t, "CreateTransaction", f.CreateTransaction(t.Context(), made), nil)
	read, err := f.Transaction(t.Context(), made.ID)
	wantError(t, "Transaction", err, nil)
	return read
}

func (f *fixture) read(t *testing.T, id string) storage.Grant {
	t.Helper()
	g, err := f.Grant(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// wantRevoked checks that the grant is revoked and that a process that read it before cannot
// change that.
func (f *fixture) wantRevoked(t *testing.T, before storage.Grant) {
	t.Helper()
	if got := f.read(t, before.ID); got.State != storage.GrantRevoked {
		t.Errorf("the grant is %s; want revoked", got.State)
	}
	_, err := f.Rotate(t.Context(), before, f.life())
	wantError(t, "Rotate of a revoked grant", err, storage.ErrConflict)
	_, err = f.Redeem(t.Context(), before, f.life())
	wantError(t, "Redeem of a revoked grant", err, storage.ErrConflict)
	if got := f.read(t, before.ID); got.State != storage.GrantRevoked {
		t.Errorf("the grant is %s again", got.State)
	}
}
