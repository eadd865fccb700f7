package catalogue_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse.example/storage"
	"gatehouse.example/storage/catalogue"
)

// catalogueOn returns the catalogue on a backend, with a clock that stands still.
func catalogueOn(t testing.TB, b storage.Backend) *catalogue.Catalogue {
	t.Helper()
	return catalogueWith(t, b, storage.Options{Issuer: issuer, Now: now})
}

func catalogueWith(t testing.TB, b storage.Backend, o storage.Options) *catalogue.Catalogue {
	t.Helper()
	s, err := storage.New(b, o)
	if err != nil {
		t.Fatal(err)
	}
	return catalogue.New(s)
}

func openCatalogue(t testing.TB, s *catalogue.Catalogue) *catalogue.Writer {
	t.Helper()
	w, err := s.OpenWriter(t.Context(), "test")
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func server(name, version, record string, marks ...string) catalogue.Entry {
	e := catalogue.Entry{Name: name, Version: version, Status: "active", Server: []byte(record), Updated: now()}
	for _, mark := range marks {
		if mark == "latest" {
			e.Latest = true
		} else {
			e.Status = mark
		}
	}
	return e
}

// view returns the rows of a page as one line.
func view(page catalogue.Page) string {
	var parts []string
	for _, e := range page.Entries {
		parts = append(parts, fmt.Sprintf("%s %s=%s", e.Name, e.Version, e.Server))
	}
	if page.More {
		parts = append(parts, "...")
	}
	return strings.Join(parts, ", ")
}

// TestCatalogueInterleaved: for every order of the operations of a reader and a writer, the
// reader sees all rows of a commit or none.
func TestCatalogueInterleaved(t *testing.T) {
	if raced {
		t.Skip("one operation runs at a time: the race detector has nothing to see")
	}
	start := newPlain()
	w := openCatalogue(t, catalogueOn(t, start))
	before := []catalogue.Entry{server("a", "1", "old", "latest"), server("b", "1", "old"), server("c", "1", "old", catalogue.StatusDeleted)}
	if err := w.Commit(t.Context(), before, nil); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	all, live := catalogue.Query{Deleted: true}, catalogue.Query{}
	since, latest := catalogue.Query{Since: now().Add(-time.Hour)}, catalogue.Query{Latest: true}
	for _, test := range []struct {
		name    string
		page    []catalogue.Entry
		queries []catalogue.Query
	}{
		{"a new version", []catalogue.Entry{server("a", "1", "new"), server("a", "2", "new", "latest")}, []catalogue.Query{latest}},
		{"deleted and restored", []catalogue.Entry{server("b", "1", "new", catalogue.StatusDeleted), server("c", "1", "new")}, []catalogue.Query{live}},
		{"deleted", []catalogue.Entry{server("b", "1", "new", catalogue.StatusDeleted)}, []catalogue.Query{all}},
		{"only the record", []catalogue.Entry{server("a", "1", "new", "latest"), server("b", "1", "new"), server("c", "1", "new", catalogue.StatusDeleted)}, []catalogue.Query{{Version: "1"}, all, since}},
	} {
		for i, q := range test.queries {
			t.Run(fmt.Sprintf("%s/%d", test.name, i), func(t *testing.T) { everyOrder(t, start, test.page, q) })
		}
	}
}

// everyOrder runs every order of the operations of a reader and a writer.
func everyOrder(t *testing.T, start *plainBackend, page []catalogue.Entry, q catalogue.Query) {
	read := func(b storage.Backend) string {
		page, err := catalogueOn(t, b).Page(t.Context(), q, "", 10)
		if err != nil {
			t.Fatal(err)
		}
		return view(page)
	}
	whole := newSteps(t, start.clone(), page)
	whole.end()
	before, after := read(start.clone()), read(whole.backend)
	if before == after {
		t.Fatalf("before and after readers see %s", before)
	}
	operations := 4
	if q.Deleted {
		operations = 5
	}
	seen, tried := map[string]int{}, 0
	for _, places := range ascending(operations, whole.done+1) {
		got := interleave(t, start.clone(), page, places, read)
		tried++
		if seen[got]++; got != before && got != after {
			t.Fatalf("at %v a reader sees %s", places, got)
		}
	}
	if seen[before] == 0 || seen[after] == 0 {
		t.Errorf("of %d readers %d saw the page", tried, seen[after])
	}
	t.Logf("%d orders of %d changes and %d reads", tried, whole.done, operations)
}

// ascending returns all ways to choose n numbers below most in ascending order, with repetition.
func ascending(n, most int) (all [][]int) {
	if n == 0 {
		return [][]int{nil}
	}
	for _, rest := range ascending(n-1, most) {
		from := 0
		if len(rest) > 0 {
			from = rest[len(rest)-1]
		}
		for i := from; i < most; i++ {
			all = append(all, append(slices.Clone(rest), i))
		}
	}
	return all
}

// steps is a commit that proceeds one change at a time.
type steps struct {
	backend *plainBackend
	writer  *catalogue.Writer
	step    func() (struct{}, bool) // proceeds to the next change
	stop    func()
	done    int
	over    bool
}

// newSteps begins a commit and stops before its first change.
func newSteps(t *testing.T, b *plainBackend, entries []catalogue.Entry) *steps {
	writes := &stepping{plainBackend: b}
	w := openCatalogue(t, catalogueOn(t, writes))
	s := &steps{backend: b}
	s.step, s.stop = iter.Pull(func(yield func(struct{}) bool) {
		writes.pause = func() { yield(struct{}{}) }
		if err := w.Commit(context.WithValue(context.Background(), isStep{}, true), entries, nil); err != nil {
			t.Errorf("Commit: %v", err)
		}
	})
	s.writer = w
	_, more := s.step()
	s.over = !more
	return s
}

// until lets the commit proceed until it has made n changes.
func (s *steps) until(n int) {
	for s.done < n && !s.over {
		_, more := s.step()
		s.over = !more
		s.done++
	}
}

// end lets the commit proceed to its end.
func (s *steps) end() {
	s.until(1 << 30)
	s.stop()
	_ = s.writer.Close(context.Background())
}

// isStep marks the context of the commit. Renewals of the lease are not steps.
type isStep struct{}

// stepping stops before each change.
type stepping struct {
	*plainBackend
	pause func()
}

func (s *stepping) stand(ctx context.Context) {
	if ctx.Value(isStep{}) != nil {
		s.pause()
	}
}

func (s *stepping) Put(ctx context.Context, put storage.Put) (storage.Item, error) {
	for _, l := range put.Listed {
		if err := s.IndexAdd(ctx, l.Index, l.Entry); err != nil {
			return storage.Item{}, err
		}
	}
	put.Listed = nil
	s.stand(ctx)
	return s.plainBackend.Put(ctx, put)
}

func (s *stepping) IndexAdd(ctx context.Context, index, entry string) error {
	s.stand(ctx)
	return s.plainBackend.IndexAdd(ctx, index, entry)
}

func (s *stepping) IndexRemove(ctx context.Context, index, entry string) error {
	s.stand(ctx)
	return s.plainBackend.IndexRemove(ctx, index, entry)
}

// interleave reads during a commit: the i-th operation of the reader happens when the commit has
// made places[i] changes.
func interleave(t *testing.T, b *plainBackend, entries []catalogue.Entry, places []int, read func(storage.Backend) string) string {
	commit := newSteps(t, b, entries)
	defer commit.end()
	op := 0
	return read(&stepped{b, func() {
		if op < len(places) {
			commit.until(places[op])
			op++
		}
	}})
}

// stepped calls a function before each read operation.
type stepped struct {
	*plainBackend
	before func()
}

func (s *stepped) Get(ctx context.Context, key string) (storage.Item, error) {
	s.before()
	return s.plainBackend.Get(ctx, key)
}

func (s *stepped) GetMany(ctx context.Context, keys []string) ([]storage.Item, error) {
	s.before()
	return s.plainBackend.GetMany(ctx, keys)
}

func (s *stepped) IndexPage(ctx context.Context, index, after string, limit int) ([]string, error) {
	s.before()
	return s.plainBackend.IndexPage(ctx, index, after, limit)
}

// TestCatalogueKeepsChanging: a reader during whose attempts pages are committed without end
// returns ErrUnavailable.
func TestCatalogueKeepsChanging(t *testing.T) {
	b := newPlain()
	w := openCatalogue(t, catalogueOn(t, b))
	defer w.Close(t.Context())
	n := 0
	commit := func() {
		n++
		if err := w.Commit(t.Context(), []catalogue.Entry{server("a", "1", fmt.Sprint(n), "latest")}, nil); err != nil {
			t.Fatal(err)
		}
	}
	commit()
	operations := 0
	s := catalogueOn(t, &stepped{b, func() {
		operations++
		commit()
	}})
	for what, read := range map[string]func() error{
		"Page":     func() error { _, err := s.Page(t.Context(), catalogue.Query{}, "", 1); return err },
		"Versions": func() error { _, err := s.Versions(t.Context(), "a", nil); return err },
		"Latest":   func() error { _, err := s.Latest(t.Context(), "a"); return err },
	} {
		operations = 0
		if err := read(); !errors.Is(err, storage.ErrUnavailable) || errors.Is(err, storage.ErrNotFound) || operations > 100 {
			t.Errorf("%s: %v after %d operations", what, err, operations)
		}
	}
	// A row that has changed once since the state was read is returned as of that state.
	if e, err := s.Entry(t.Context(), "a", "1"); err != nil || string(e.Server) != fmt.Sprint(n-1) {
		t.Errorf("after %d pages a row is of page %s, %v", n, e.Server, err)
	}
	twice := catalogueOn(t, &stepped{b, func() { commit(); commit() }})
	if _, err := twice.Entry(t.Context(), "a", "1"); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("a row that changes twice while it is read: %v", err)
	}
}

// TestCatalogueLeaseIsRenewed: an idle writer keeps its lease, also if the store is unavailable
// for less than the lease. After a longer time it may lose it.
func TestCatalogueLeaseIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newPlain()
		s := catalogueWith(t, b, storage.Options{Issuer: issuer})
		w := openCatalogue(t, s)
		set := func(err error) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.fails = err
		}
		for range 100 {
			time.Sleep(700 * time.Millisecond)
			if _, err := s.OpenWriter(t.Context(), "other"); !errors.Is(err, catalogue.ErrLeased) {
				t.Fatalf("another writer: %v", err)
			}
		}
		set(errors.New("away"))
		time.Sleep(3 * time.Second)
		set(nil)
		time.Sleep(1500 * time.Millisecond)
		if st := w.State(); time.Until(st.LeaseUntil) < 3*time.Second {
			t.Errorf("after three seconds without a store the lease ends in %v", time.Until(st.LeaseUntil))
		}
		if err := w.Commit(t.Context(), []catalogue.Entry{server("a", "1", "x")}, nil); err != nil {
			t.Errorf("Commit: %v", err)
		}
		if err := w.Close(t.Context()); err != nil {
			t.Errorf("Close: %v", err)
		}
		count := b.changes()
		time.Sleep(time.Minute)
		if n := b.changes() - count; n != 0 {
			t.Errorf("a closed writer made %d changes", n)
		}
		next := openCatalogue(t, s)
		if err := next.Close(t.Context()); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
}

// TestCatalogueForgetsItsPages: the state, which every reader reads twice, names the rows of a
// page only while the page is written.
func TestCatalogueForgetsItsPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newPlain()
		s := catalogueWith(t, b, storage.Options{Issuer: issuer})
		size := func() int {
			b.mu.Lock()
			defer b.mu.Unlock()
			return len(b.items["gatehouse:catalogue:state"].Data)
		}
		var largest atomic.Int64
		b.before = func(string) { largest.Store(max(largest.Load(), int64(size()))) }
		w := openCatalogue(t, s)
		defer w.Close(t.Context())
		empty := size()
		for _, record := range []string{"old", "new"} {
			var page []catalogue.Entry
			for i := range 500 {
				page = append(page, server("com.example/"+record[:1]+fmt.Sprint(i%400), "1.0.0-"+fmt.Sprint(i/400), record, []string{"active", "latest"}[i%2]))
				page[i].Updated = time.Now()
			}
			if err := w.Commit(t.Context(), page, nil); err != nil {
				t.Fatal(err)
			}
			time.Sleep(1100 * time.Millisecond)
			if n, most := size(), int(largest.Load()); n > empty+100 || most < 10*empty {
				t.Errorf("the state had %d bytes, while a page was written %d, and a second later %d", empty, most, n)
			}
		}
	})
}
