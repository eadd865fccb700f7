// Package storagetest is the contract of [storage.Backend] in executable form, for the author of
// a database driver.
//
// [TestBackend] checks every method by itself, [TestConcurrency] checks that races have one
// winner, [TestStore] checks that [storage.Store] works as documented on this backend, also when
// replies are lost. [NewFaults] makes any backend fail on command. What is built on a store has
// suites of its own: see storage/catalogue/cataloguetest.
//
// The suites write under random keys and read only what they wrote, so a shared database may
// serve many tests at once. They wait only for the end of items whose lifetime they test, and for
// the two seconds after which a write without an answer fails.
//
// Example:
//
//	func TestDriver(t *testing.T) {
//		open := func(t *testing.T) storage.Backend { return mydriver.New(t.TempDir()) }
//		storagetest.TestBackend(t, open)
//		storagetest.TestConcurrency(t, open)
//		storagetest.TestStore(t, open)
//	}
package storagetest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	"gatehouse.example/storage"
	"gatehouse.example/storage/internal/testkit"
)

// Open opens the backend under test. The suites close it.
type Open func(t *testing.T) storage.Backend

// begin opens a backend for one test and closes it at the end.
func (open Open) begin(t *testing.T) storage.Backend {
	t.Helper()
	backend := open(t)
	t.Cleanup(func() {
		if err := backend.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return backend
}

// Shared with the suites of storage/catalogue.
var (
	unique          = testkit.Unique
	operation       = testkit.Operation
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

// put stores data under key, whatever is there, and returns the new version.
func put(t *testing.T, b storage.Backend, key, data string) storage.Version {
	t.Helper()
	op := operation()
	item, err := b.Put(t.Context(), storage.Put{Key: key, Data: []byte(data), If: storage.Always, Operation: op})
	if err != nil {
		t.Fatalf("Put: %v", err)
	}
	wantItem(t, "Put", item, data, op)
	return op
}

func wantItem(t *testing.T, what string, got storage.Item, data string, version storage.Version) {
	t.Helper()
	if string(got.Data) != data || got.Version != version {
		t.Errorf("%s returned %q, version %x; want %q, version %x", what, got.Data, got.Version, data, version)
	}
}

// wantStored checks what is under key: data and version, or nothing if version is zero.
func wantStored(t *testing.T, b storage.Backend, key, data string, version storage.Version) {
	t.Helper()
	got, err := b.Get(t.Context(), key)
	if version == (storage.Version{}) {
		wantError(t, "Get", err, storage.ErrNotFound)
		return
	}
	if err != nil {
		t.Errorf("Get: %v", err)
		return
	}
	wantItem(t, "Get", got, data, version)
}

// wantSame compares the exported fields of two values.
func wantSame(t *testing.T, what string, got, want any) {
	t.Helper()
	if a, b := plain(t, got), plain(t, want); !reflect.DeepEqual(a, b) {
		t.Errorf("%s returned\n%v; want\n%v", what, a, b)
	}
}

func plain(t *testing.T, v any) (out any) {
	t.Helper()
	data, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// patience bounds the wait for an item to end.
const patience = 20 * time.Second

// eventually polls until done reports true.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s did not happen within %v", what, patience)
		}
	}
}

func name(format string, args ...any) string { return fmt.Sprintf(format, args...) }
