package testkit

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"slices"
	"testing"

	"gatehouse.example/storage"
)

// Unique returns a key that no other test uses.
func Unique(name string) string { return "storagetest:" + rand.Text() + ":" + name }

// Memory returns a folder in memory where there is one, so that a write does not wait for a disk. It
// is removed with what is in it when the test ends.
func Memory(t testing.TB) string {
	t.Helper()
	folder, err := os.MkdirTemp("/dev/shm", "gatehouse")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	return folder
}

// Operation returns a new operation id.
func Operation() (v storage.Version) {
	_, _ = rand.Read(v[:]) // never fails
	return v
}

// MasterKey returns a new master key.
func MasterKey() []byte {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	return key
}

// Cancelled returns a context that is over.
func Cancelled(t testing.TB) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// Page reads one page of an index or fails the test.
func Page(t testing.TB, b storage.Backend, index, after string, limit int) []string {
	t.Helper()
	entries, err := b.IndexPage(t.Context(), index, after, limit)
	if err != nil {
		t.Fatalf("IndexPage: %v", err)
	}
	return entries
}

// Fill adds entries to an index or fails the test.
func Fill(t testing.TB, b storage.Backend, index string, entries ...string) {
	t.Helper()
	for _, entry := range entries {
		if err := b.IndexAdd(t.Context(), index, entry); err != nil {
			t.Fatalf("IndexAdd: %v", err)
		}
	}
}

// WantEntries compares lists.
func WantEntries(t testing.TB, what string, got []string, want ...string) {
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

// WantError checks that an error is one of a kind, or nil if want is nil.
func WantError(t testing.TB, what string, got, want error) {
	t.Helper()
	if want == nil && got != nil || !errors.Is(got, want) {
		t.Errorf("%s returned error %v; want %v", what, got, want)
	}
}

// WantUnavailable checks that an error is ErrUnavailable, and no other kind.
func WantUnavailable(t testing.TB, what string, err error) {
	t.Helper()
	if !errors.Is(err, storage.ErrUnavailable) || errors.Is(err, storage.ErrNotFound) || errors.Is(err, storage.ErrConflict) {
		t.Errorf("%s returned error %v; want one that wraps %v only", what, err, storage.ErrUnavailable)
	}
}

// Together runs n functions at once and returns their errors.
func Together(n int, f func(i int) error) []error {
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

// WantOneWinner checks that exactly one error is nil and that the others are losing.
func WantOneWinner(t testing.TB, errs []error, losing error) (winner int) {
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
