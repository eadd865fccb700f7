package catalogue_test

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gatehouse.example/storage"
	"gatehouse.example/storage/catalogue"
)

var zeros = regexp.MustCompile("\x000+([1-9a-z][0-9a-z]*L?)$")

// earlier changes a catalogue to the form of an earlier release: no list by age, no sizes, and no
// Orders in the state.
func earlier(b *plainBackend) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, entries := range b.indexes {
		if strings.HasSuffix(name, ":age") {
			delete(b.indexes, name)
			continue
		}
		for i, entry := range entries {
			entries[i] = zeros.ReplaceAllString(entry, "\x00$1")
		}
		slices.Sort(entries)
	}
	for key, item := range b.items {
		item.Data = bytes.ReplaceAll(bytes.ReplaceAll(item.Data, []byte(`"orders"`), []byte(`"ordinx"`)), []byte(`"size"`), []byte(`"sixx"`))
		b.items[key] = item
	}
}

func versionNames(page catalogue.Page) (versions []string) {
	for _, e := range page.Entries {
		versions = append(versions, e.Version)
	}
	return versions
}

// TestCatalogueOfAnEarlierRelease: a catalogue of an earlier release can be read, its versions
// ordered as text, until a writer has listed all of them by age in steps. Rows committed
// meanwhile are listed as well, and a writer can be interrupted at any step.
func TestCatalogueOfAnEarlierRelease(t *testing.T) {
	b := newPlain()
	s := catalogueOn(t, b)
	w := openCatalogue(t, s)
	var rows []catalogue.Entry
	for i := range 700 {
		e := server("com.example/many", fmt.Sprintf("1.%d.0", i), "x")
		e.Published = now().Add(time.Duration(i) * time.Hour)
		e.Latest = i == 699
		rows = append(rows, e)
	}
	if err := w.Commit(t.Context(), rows, nil); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	earlier(b)
	all := catalogue.Query{Name: "com.example/many"}
	for _, q := range []catalogue.Query{all, {}} {
		page, err := s.Page(t.Context(), q, "", 3)
		if got := versionNames(page); err != nil || !slices.Equal(got, []string{"1.0.0", "1.1.0", "1.10.0"}) || !page.More {
			t.Errorf("as it is: %q, %v", got, err)
		}
	}
	byAge := func() bool {
		st, err := s.State(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return st.ByAge
	}
	for range 2 { // the first one is interrupted
		if w = openCatalogue(t, s); byAge() {
			t.Error("it is not listed by age")
		}
		if more, err := w.Relist(t.Context()); err != nil || !more {
			t.Errorf("the first step: %t %v", more, err)
		}
		late := server("com.example/many", "0.1.0", "late")
		late.Published = now().Add(-time.Hour)
		if err := w.Commit(t.Context(), []catalogue.Entry{late}, nil); err != nil {
			t.Fatal(err)
		}
		if byAge() {
			t.Error("some rows are not listed by age yet")
		}
		if err := w.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	w = openCatalogue(t, s)
	defer w.Close(t.Context())
	steps := 0
	for more := true; more; steps++ {
		var err error
		if more, err = w.Relist(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if steps != 3 || !byAge() {
		t.Errorf("listed by age: %t, after %d steps", byAge(), steps)
	}
	var got []string
	for after, more := "", true; more; {
		page, err := s.Page(t.Context(), all, after, 100)
		if err != nil {
			t.Fatal(err)
		}
		got, after, more = append(got, versionNames(page)...), page.Next, page.More
	}
	if len(got) != 701 || got[0] != "1.699.0" || got[1] != "1.698.0" || got[699] != "1.0.0" || got[700] != "0.1.0" {
		t.Errorf("%d versions by age: %.80q", len(got), got)
	}
}

// weighing measures the bytes read at once.
type weighing struct {
	*plainBackend
	mu      sync.Mutex // the writer renews its lease at the same time
	largest int        // read at once, in bytes
}

func (w *weighing) GetMany(ctx context.Context, keys []string) ([]storage.Item, error) {
	items, err := w.plainBackend.GetMany(ctx, keys)
	n := 0
	for _, item := range items {
		n += len(item.Data)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.largest = max(w.largest, n)
	return items, err
}

// largestRead returns the largest read since its last call.
func (w *weighing) largestRead() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer func() { w.largest = 0 }()
	return w.largest
}

// TestPagesHaveBoundedBytes: for rows of different sizes in any order, a page has as many rows
// as fit, at least one, and no read is larger than the rows that fit and one more.
func TestPagesHaveBoundedBytes(t *testing.T) {
	const most, largest = 1 << 20, 600_000
	b := &weighing{plainBackend: newPlain()}
	s := catalogueOn(t, b)
	w := openCatalogue(t, s)
	defer w.Close(t.Context())
	want := 0
	for i := range 300 {
		size := []int{10, 3000, 30_000, 200_000, largest, 10, 10}[i%7]
		e := server(serverName(i), "1", strings.Repeat("x", size), "latest")
		e.Meta = []byte(`{}`)
		if err := w.Commit(t.Context(), []catalogue.Entry{e}, nil); err != nil {
			t.Fatal(err)
		}
		want++
	}
	for _, old := range []bool{false, true} {
		if old {
			earlier(b.plainBackend)
		}
		rows, pages := 0, 0
		for after, more := "", true; more; pages++ {
			page, err := s.Page(t.Context(), catalogue.Query{MaxBytes: most}, after, 100)
			if err != nil {
				t.Fatal(err)
			}
			bytes := 0
			for _, e := range page.Entries {
				bytes += len(e.Server) + len(e.Meta)
			}
			if bytes > most && len(page.Entries) > 1 || len(page.Entries) == 0 {
				t.Errorf("a page of %d rows and %d bytes", len(page.Entries), bytes)
			}
			rows, after, more = rows+len(page.Entries), page.Next, page.More
		}
		if rows != want || pages > 50 {
			t.Errorf("%d rows of %d on %d pages", rows, want, pages)
		}
		bound := most + largest + 4096
		if old {
			bound = 16 * largest // without sizes, a fixed number of rows is read at once
		}
		if read := b.largestRead(); read > bound {
			t.Errorf("%d bytes were read at once", read)
		}
	}
}

// TestNamesWithoutRows: Names reads lists and no rows.
func TestNamesWithoutRows(t *testing.T) {
	b := &keyCounter{plainBackend: newPlain()}
	s := catalogueOn(t, b)
	filled(t, s, 2500, 10)
	b.keys = 0
	clear(b.counts)
	names := map[string]bool{}
	if err := s.Names(t.Context(), time.Time{}, func(name string) { names[name] = true }); err != nil || len(names) != 2500 || b.keys != 0 || b.counts["get"] != 0 {
		t.Errorf("%d names, %v, after %v", len(names), err, b.counts)
	}
	later := 0
	if err := s.Names(t.Context(), now().Add(2489*time.Second), func(string) { later++ }); err != nil || later != 10 {
		t.Errorf("%d names later, %v", later, err)
	}
}
