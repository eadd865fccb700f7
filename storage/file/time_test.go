package file_test

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gatehouse.example/storage"
	"gatehouse.example/storage/file"
)

// watch is a clock that a test sets.
type watch struct{ at atomic.Int64 }

func (w *watch) now() time.Time        { return time.UnixMilli(w.at.Load()) }
func (w *watch) move(by time.Duration) { w.at.Add(by.Milliseconds()) }
func newWatch() *watch                 { w := &watch{}; w.at.Store(1_800_000_000_000); return w }
func (w *watch) open(t testing.TB, folder string) *file.Backend {
	t.Helper()
	b, err := file.Open(file.Options{Path: filepath.Join(folder, "gatehouse.db"), Create: true, Now: w.now})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestClockSetBack: what is over does not come back when the clock is corrected by less than an
// hour, and what is swept never does. A clock that was wrong by more does not keep items for ever.
func TestClockSetBack(t *testing.T) {
	w := newWatch()
	b := w.open(t, memory(t))
	defer b.Close()
	put := func(key string, op byte, ttl time.Duration) {
		t.Helper()
		if _, err := b.Put(t.Context(), storage.Put{Key: key, If: storage.Always, Operation: storage.Version{op}, TTL: ttl}); err != nil {
			t.Fatal(err)
		}
	}
	want := func(key string, there bool) {
		t.Helper()
		if _, err := b.Get(t.Context(), key); (err == nil) != there || err != nil && !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("Get(%q) returned %v; want it there: %t", key, err, there)
		}
	}
	put("code", 1, time.Minute)
	want("code", true)
	w.move(time.Minute)
	want("code", false)
	w.move(-30 * time.Minute)
	want("code", false)
	put("later", 2, time.Minute)
	w.move(29 * time.Minute) // not yet where it was
	want("later", true)
	want("code", false)
	w.move(2*time.Minute + time.Second)
	want("later", false)
	b.Housekeep(t.Context())
	w.move(-time.Hour * 24)
	want("code", false)
	want("later", false)
	put("code", 3, time.Minute) // the same key again: the end of the item before is not its own
	w.move(59 * time.Second)
	b.Housekeep(t.Context())
	want("code", true)
	w.move(time.Second)
	want("code", false)
	b.Housekeep(t.Context())
	put("code", 4, 0)
	w.move(365 * 24 * time.Hour)
	b.Housekeep(t.Context())
	want("code", true)
}

var (
	grants = flag.Int("file.grants", 5_000, "how many items are issued and expire")
	alive  = flag.Int("file.alive", 500, "how many of them are there at a time")
)

// TestFileStaysSmall: under a constant load of items that are written, written again and end, the
// file does not grow with their number, and nothing of them is left. After that, an index of many
// entries costs what one of a few costs.
func TestFileStaysSmall(t *testing.T) {
	t.Parallel()
	w, folder := newWatch(), memory(t)
	b := w.open(t, folder)
	defer b.Close()
	const writers = 50
	var sizes []int
	for round := range max(*grants / *alive, 10) {
		var all sync.WaitGroup
		for writer := range writers {
			all.Go(func() { issue(t, b, fmt.Sprint(round, " ", writer), *alive/writers) })
		}
		all.Wait()
		w.move(61 * time.Second)
		b.Housekeep(t.Context())
		roots, err := readUpTo(filepath.Join(folder, "gatehouse.db"), 2*pageSize)
		if err != nil || t.Failed() {
			t.Fatal(err)
		}
		sizes = append(sizes, pagesOf(roots))
	}
	if keys, _, err := b.Scan(t.Context(), "", "", 10); err != nil || len(keys) > 0 {
		t.Errorf("%q is left, %v", keys, err)
	}
	// If nothing was removed, the second half of the rounds would double the file.
	first, last := sizes[len(sizes)/2-1], sizes[len(sizes)-1]
	if last > first*3/2 {
		t.Errorf("the file grew from %d to %d pages: %v", first, last, sizes)
	}
	t.Logf("the file has %d kB after %d items of 1 kB and %d kB after %d, %d at a time",
		first*pageSize>>10, len(sizes)/2**alive, last*pageSize>>10, len(sizes)**alive, *alive)
}

// readUpTo reads the beginning of a file.
func readUpTo(path string, n int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, n))
}

// issue writes items as a code and a redemption do.
func issue(t *testing.T, b storage.Backend, name string, n int) {
	for i := range n {
		put := storage.Put{Key: fmt.Sprintf("grant %s %d", name, i), Data: make([]byte, 1000), Operation: storage.Version{1}, TTL: time.Minute}
		for next := byte(2); next < 4; next++ {
			if _, err := b.Put(t.Context(), put); err != nil {
				t.Error(err)
				return
			}
			put.If, put.Operation = storage.Unchanged(put.Operation), storage.Version{next}
		}
	}
}

// TestLongIndex: a page of an index with very many entries is in order, and read with as few
// steps as of one with a few. Their number is known without counting.
func TestLongIndex(t *testing.T) {
	b := openAt(t, memory(t))
	defer b.Close()
	add := func(index string, n int) {
		for i := 0; i < n; i += 200 {
			put := storage.Put{Key: fmt.Sprint(index, i), Operation: storage.Version{1}}
			for entry := range 200 {
				put.Listed = append(put.Listed, storage.Listing{Index: index, Entry: fmt.Sprintf("%06d", i+entry)})
			}
			if _, err := b.Put(t.Context(), put); err != nil {
				t.Fatal(err)
			}
		}
	}
	add("few", 200)
	add("many", 20_000)
	cost := func(index, after string) float64 {
		return testing.AllocsPerRun(10, func() {
			page, err := b.IndexPage(t.Context(), index, after, 50)
			back, backErr := b.IndexPageBefore(t.Context(), index, after, 50)
			n, lenErr := b.IndexLen(t.Context(), index)
			if err := errors.Join(err, backErr, lenErr); err != nil || len(page) != 50 || len(back) != 50 || n < 200 {
				t.Fatal(len(page), len(back), n, err)
			}
			for i := range page {
				if first := 1 + atoi(after); atoi(page[i]) != first+i || atoi(back[i]) != first-2-i {
					t.Fatal("not in order", page, back)
				}
			}
		})
	}
	few, many := cost("few", "000100"), cost("many", "010000")
	t.Log("allocations:", few, many)
	if many > few+20 {
		t.Errorf("a page of few entries allocates %v times, one of many %v", few, many)
	}
}

func atoi(s string) (n int) {
	_, _ = fmt.Sscanf(s, "%06d", &n)
	return n
}

// TestLongKeys: the longest key that is taken can have a lifetime too, and the item ends; a longer one,
// and none, is refused before anything is written, also to its lists.
func TestLongKeys(t *testing.T) {
	w := newWatch()
	b := w.open(t, memory(t))
	defer b.Close()
	const longest = 32768 - 8 // bbolt's greatest key, and a time before it
	for length, taken := range map[int]bool{0: false, 1: true, longest: true, longest + 1: false, 32768: false} {
		for _, ttl := range []time.Duration{0, time.Minute} {
			index := fmt.Sprint("of ", length, ttl)
			put := storage.Put{
				Key: strings.Repeat("k", length), Data: []byte("data"), Operation: storage.Version{1}, TTL: ttl,
				Listed: []storage.Listing{{Index: index, Entry: "entry"}},
			}
			_, err := b.Put(t.Context(), put)
			n, lenErr := b.IndexLen(t.Context(), index)
			if (err == nil) != taken || lenErr != nil || (n == 1) != taken {
				t.Errorf("a key of %d bytes for %s: %v; %d entries, %v", length, ttl, err, n, lenErr)
			}
			if taken {
				if err := b.Delete(t.Context(), put.Key); err != nil {
					t.Errorf("a key of %d bytes is not deleted: %v", length, err)
				}
			}
		}
	}
}
