package cataloguetest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"gatehouse.example/storage"
	"gatehouse.example/storage/catalogue"
	"gatehouse.example/storage/internal/testkit"
	"gatehouse.example/storage/storagetest"
)

// Helpers that this suite shares with those of package storage.
var (
	masterKey       = testkit.MasterKey
	page            = testkit.Page
	fill            = testkit.Fill
	cancelled       = testkit.Cancelled
	wantEntries     = testkit.WantEntries
	wantError       = testkit.WantError
	wantUnavailable = testkit.WantUnavailable
	together        = testkit.Together
	wantOneWinner   = testkit.WantOneWinner
)

func name(format string, args ...any) string { return fmt.Sprintf(format, args...) }

const issuer = "https://issuer.example.com"

// clock is a clock that tests move.
type clock struct {
	mu  sync.Mutex
	now time.Time
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

// opened is a store and its catalogue.
type opened struct {
	*storage.Store
	*catalogue.Catalogue
}

// fixture is a catalogue on the backend under test, with direct access to the backend.
type fixture struct {
	opened
	clock   *clock
	faults  *storagetest.Faults
	backend *testkit.Isolated
	keys    [][]byte
	glances int
}

func newFixture(t *testing.T, b storage.Backend) *fixture {
	t.Helper()
	f := &fixture{
		clock: &clock{now: time.Date(2031, time.March, 4, 5, 6, 7, 0, time.UTC)},
		keys:  [][]byte{masterKey()}, backend: testkit.NewIsolated(b),
	}
	f.faults = storagetest.NewFaults(f.backend)
	f.opened = f.open(t, f.faults, f.keys...)
	_, err := f.SealRecords(t.Context(), nil) // begins the sealing of records
	wantError(t, "SealRecords", err, nil)
	return f
}

// unhurried is the time limit of a write in tests that do not examine the limit: the machine may
// be busy.
const unhurried = time.Minute

// open returns another Store and catalogue on the same records.
func (f *fixture) open(t *testing.T, b storage.Backend, keys ...[]byte) opened {
	t.Helper()
	s, err := storage.New(b, storage.Options{Issuer: issuer, MasterKeys: keys, Now: f.clock.Now, WriteTime: unhurried})
	if err != nil {
		t.Fatal(err)
	}
	return opened{s, catalogue.New(s)}
}

// with opens another Store with the given master keys on the same records.
func (f *fixture) with(t *testing.T, keys ...[]byte) opened {
	t.Helper()
	return f.open(t, f.faults, keys...)
}

// on opens the catalogue of another process on the same records.
func (f *fixture) on(t *testing.T, p *process) *catalogue.Catalogue {
	t.Helper()
	return f.open(t, p, f.keys...).Catalogue
}
