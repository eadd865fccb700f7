// Package storagetest is the contract of [storage.Backend] in executable form, for the
// author of a database driver.
//
// [TestBackend] checks every method by itself, [TestConcurrency] checks that races have
// one winner, [TestStore] checks that [storage.Store] keeps its promises on this
// backend, also when replies are lost. [NewFaults] makes any backend fail on command.
//
// The suites write under random keys and never read what they did not write, so a
// shared database may serve many tests at once. They wait for nothing but the end of
// items whose lifetime they test, and for the two seconds after which a write without
// an answer is given up.
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
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"gatehouse.example/storage"
)

// Open opens the backend under test. The suites close what it returns.
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

// unique returns a key that nobody else uses.
func unique(name string) string { return "storagetest:" + rand.Text() + ":" + name }

// operation returns a fresh operation id.
func operation() (v storage.Version) {
	_, _ = rand.Read(v[:]) // never fails
	return v
}

// put stores data under key whatever is there and returns the new version.
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

// page reads one page or fails the test.
func page(t *testing.T, b storage.Backend, index, after string, limit int) []string {
	t.Helper()
	entries, err := b.IndexPage(t.Context(), index, after, limit)
	if err != nil {
		t.Fatalf("IndexPage: %v", err)
	}
	return entries
}

func fill(t *testing.T, b storage.Backend, index string, entries ...string) {
	t.Helper()
	for _, entry := range entries {
		if err := b.IndexAdd(t.Context(), index, entry); err != nil {
			t.Fatalf("IndexAdd: %v", err)
		}
	}
}

func wantEntries(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if slices.Equal(got, want) {
		return
	}
	if len(got)+len(want) < 100 {
		t.Errorf("%s: %q; want %q", what, got, want)
		return
	}
	same := 0
	for same < min(len(got), len(want)) && got[same] == want[same] {
		same++
	}
	t.Errorf("%s: %d entries, of which the first %d are right; want %d", what, len(got), same, len(want))
}

func wantError(t *testing.T, what string, got, want error) {
	t.Helper()
	if want == nil && got != nil || !errors.Is(got, want) {
		t.Errorf("%s returned error %v; want %v", what, got, want)
	}
}

// wantSame compares two values by what is exported of them.
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

// together runs n functions at once and returns their errors.
func together(n int, f func(i int) error) []error {
	start := make(chan struct{})
	type result struct {
		i   int
		err error
	}
	results := make(chan result)
	for i := range n {
		go func() {
			<-start
			results <- result{i, f(i)}
		}()
	}
	close(start)
	errs := make([]error, n)
	for range n {
		r := <-results
		errs[r.i] = r.err
	}
	return errs
}

// wantOneWinner checks that exactly one error is nil and that the others are losing.
func wantOneWinner(t *testing.T, errs []error, losing error) (winner int) {
	t.Helper()
	winner = -1
	won := 0
	for i, err := range errs {
		switch {
		case err == nil:
			winner, won = i, won+1
		case !errors.Is(err, losing):
			t.Errorf("a loser got %v; want %v", err, losing)
		}
	}
	if won != 1 {
		t.Fatalf("%d of %d won; want exactly one", won, len(errs))
	}
	return winner
}

// cancelled is a context that is over.
func cancelled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

func name(format string, args ...any) string { return fmt.Sprintf(format, args...) }
