package catalogue_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gatehouse.example/storage"
	"gatehouse.example/storage/catalogue"
	"gatehouse.example/storage/redis"
)

// keyCounter counts the items read.
type keyCounter struct {
	*plainBackend
	keys int
}

func (c *keyCounter) GetMany(ctx context.Context, keys []string) ([]storage.Item, error) {
	c.keys += len(keys)
	return c.plainBackend.GetMany(ctx, keys)
}

// serverName returns the name of the i-th server.
func serverName(i int) string { return fmt.Sprintf("com.example.%02x/server-%06d", i%251, i) }

// filled commits n rows with records of the given size. Every third row is the latest, every
// fourth is deleted.
func filled(t testing.TB, s *catalogue.Catalogue, n, size int) {
	t.Helper()
	w := openCatalogue(t, s)
	record := bytes.Repeat([]byte("x"), size)
	for from := 0; from < n; from += catalogue.MaxCommit {
		var page []catalogue.Entry
		for i := from; i < min(n, from+catalogue.MaxCommit); i++ {
			page = append(page, catalogue.Entry{
				Name: serverName(i), Version: "1.0.0", Server: record, Meta: []byte(`{"rating":5}`), Status: "active",
				Updated: now().Add(time.Duration(i) * time.Second), Published: now(), Latest: i%3 == 0,
			})
			if i%4 == 3 {
				page[len(page)-1].Status = catalogue.StatusDeleted
			}
		}
		if err := w.Commit(t.Context(), page, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestCataloguePageCosts: the number of operations and of rows read for a page does not depend on
// its position, the number of rows and the number of deleted rows.
func TestCataloguePageCosts(t *testing.T) {
	since := now().Add(time.Minute)
	const middle = "com.example.40"
	for _, rows := range []int{150, 1000, 6000} {
		b := &keyCounter{plainBackend: newPlain()}
		s := catalogueOn(t, b)
		filled(t, s, rows, 10)
		for _, test := range []struct {
			name   string
			q      catalogue.Query
			after  string
			limit  int
			want   map[string]int
			reads  int // at most
			atMost bool
		}{
			{"first", catalogue.Query{}, "", 30, map[string]int{"get": 2, "index page": 1, "get many": 1}, 31, false},
			{"large", catalogue.Query{}, "", 100, map[string]int{"get": 2, "index page": 1, "get many": 1}, 101, false},
			{"in the middle", catalogue.Query{}, middle, 30, map[string]int{"get": 2, "index page": 1, "get many": 1}, 31, false},
			{"deleted too", catalogue.Query{Deleted: true}, "", 30, map[string]int{"get": 2, "index page": 2, "get many": 1}, 31, false},
			{"latest", catalogue.Query{Latest: true}, "", 30, map[string]int{"get": 2, "index page": 1, "get many": 1}, 31, false},
			{"one version", catalogue.Query{Version: "1.0.0"}, "", 30, map[string]int{"get": 2, "index page": 1, "get many": 1}, 31, false},
			{"no such version", catalogue.Query{Version: "2.0.0"}, "", 30, map[string]int{"get": 2, "index page": 1}, 0, false},
			{"since", catalogue.Query{Since: since, Deleted: true}, "", 30, map[string]int{"get": 2, "index page": 2, "get many": 1}, 31, false},
			{"latest since", catalogue.Query{Since: since, Latest: true}, "", 20, map[string]int{"get": 2, "index page": 1, "get many": 1}, 21, false},
			{"search for many", catalogue.Query{Match: func(n string) bool { return strings.Contains(n, "server") }}, "", 30, map[string]int{"get": 2, "index page": 1, "get many": 1}, 31, false},
			{"search for none", catalogue.Query{Match: func(string) bool { return false }}, "", 30, map[string]int{"get": 2, "index page": 20}, 0, true},
		} {
			clear(b.counts)
			b.keys = 0
			page, err := s.Page(t.Context(), test.q, test.after, test.limit)
			if err != nil || test.reads > 0 && len(page.Entries) != test.limit {
				t.Errorf("%d rows, %s: %d rows, %v", rows, test.name, len(page.Entries), err)
			}
			if test.atMost {
				test.want["index page"] = min(test.want["index page"], b.counts["index page"])
			}
			if !maps.Equal(b.counts, test.want) || b.keys > test.reads {
				t.Errorf("%d rows, %s: %v operations and %d rows read; want %v, %d", rows, test.name, b.counts, b.keys, test.want, test.reads)
			}
		}
		clear(b.counts)
		b.keys = 0
		if _, err := s.Entry(t.Context(), serverName(0), "1.0.0"); err != nil || b.keys != 1 || b.counts["get"] != 1 {
			t.Errorf("a row: %v operations, %v", b.counts, err)
		}
		clear(b.counts)
		if latest, err := s.Latest(t.Context(), serverName(3)); err != nil || latest.Name != serverName(3) || b.counts["get"]+b.counts["get many"]+b.counts["index page"] > 5 {
			t.Errorf("the latest of a server: %v operations, %v", b.counts, err)
		}
	}
}

// TestCatalogueSearchIsBounded: no call compares more names than the limit, or reads rows to
// compare names. The next call continues at the position where it stopped.
func TestCatalogueSearchIsBounded(t *testing.T) {
	b := &keyCounter{plainBackend: newPlain()}
	s := catalogueOn(t, b)
	w := openCatalogue(t, s)
	defer w.Close(t.Context())
	if err := w.Commit(t.Context(), []catalogue.Entry{server("aa/rare", "1", "x"), server("zz/rare", "1", "x")}, nil); err != nil {
		t.Fatal(err)
	}
	// Entries without rows cost as much as others.
	const list = "gatehouse:catalogue-live:name"
	rare := b.indexes[list]
	b.indexes[list] = []string{rare[0]}
	for i := range 21000 {
		b.indexes[list] = append(b.indexes[list], fmt.Sprintf("mm/%05d\x001\x001", i))
	}
	b.indexes[list] = append(b.indexes[list], rare[1])
	looked := 0
	q := catalogue.Query{Match: func(name string) bool {
		looked++
		return strings.HasSuffix(name, "/rare")
	}}
	b.keys = 0
	first, err := s.Page(t.Context(), q, "", 10)
	if view(first) != "aa/rare 1=x, ..." || looked != 20000 || b.keys != 1 || err != nil {
		t.Fatalf("the first page has %s after %d names and %d rows, %v", view(first), looked, b.keys, err)
	}
	looked = 0
	second, err := s.Page(t.Context(), q, first.Next, 10)
	if view(second) != "zz/rare 1=x" || looked != 1002 || err != nil {
		t.Fatalf("the second page has %s after %d names, %v", view(second), looked, err)
	}
	var found []string
	looked = 0
	for after, more := "", true; more; {
		page, err := s.Page(t.Context(), q, after, 1)
		if err != nil {
			t.Fatal(err)
		}
		found, after, more = append(found, view(page)), page.Next, page.More
	}
	if got := strings.Join(found, "; "); got != "aa/rare 1=x, ...; zz/rare 1=x" || looked > 22000 {
		t.Errorf("one by one there are %s after %d names", got, looked)
	}
}

// embedded returns the embedded store.
func embedded(t testing.TB) storage.Backend {
	t.Helper()
	b, err := redis.Open(t.Context(), redis.Options{URL: "embedded:"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// TestCatalogueReadersMeetWholePages: while several writers commit in turn, every page of each of
// many readers shows one commit.
func TestCatalogueReadersMeetWholePages(t *testing.T) {
	s := catalogueOn(t, embedded(t))
	const rows = 20
	page := func(n int) (page []catalogue.Entry) {
		for i := range rows {
			e := server(serverName(i), "1", fmt.Sprint(n), []string{"latest", "active"}[(n+i)%2])
			e.Updated = now().Add(time.Duration(n) * time.Second)
			page = append(page, e)
		}
		return page
	}
	w := openCatalogue(t, s)
	if err := w.Commit(t.Context(), page(0), nil); err != nil {
		t.Fatal(err)
	}
	var over atomic.Bool
	var pages atomic.Int64
	var readers sync.WaitGroup
	for i := range 6 {
		readers.Go(func() {
			for q := i; !over.Load(); q++ {
				if wrong := mixed(t.Context(), s, q, rows); wrong != nil {
					t.Error(wrong)
					return
				}
				pages.Add(1)
			}
		})
	}
	for n := 1; !t.Failed() && (n < 120 || pages.Load() < 200); n++ {
		if err := w.Commit(t.Context(), page(n), nil); err != nil {
			t.Error(err)
			break
		}
		if n%20 == 0 {
			if err := w.Close(t.Context()); err != nil {
				t.Error(err)
			}
			w = openCatalogue(t, s)
		}
	}
	over.Store(true)
	readers.Wait()
	if err := w.Close(t.Context()); err != nil {
		t.Error(err)
	}
	t.Logf("%d pages were read", pages.Load())
}

// mixed reads a page of one of several queries and returns an error if it is not of one commit.
func mixed(ctx context.Context, s *catalogue.Catalogue, which, rows int) error {
	q := []catalogue.Query{{}, {Deleted: true}, {Latest: true}, {Version: "1"}, {Since: now().Add(-time.Hour), Deleted: true}}[which%5]
	page, err := s.Page(ctx, q, "", 100)
	if errors.Is(err, storage.ErrUnavailable) {
		return nil // too many commits meanwhile
	}
	want := rows
	if q.Latest {
		want = rows / 2
	}
	if err != nil || len(page.Entries) != want {
		return fmt.Errorf("query %+v: %d rows, %w; want %d", q, len(page.Entries), err, want)
	}
	for _, e := range page.Entries {
		if !bytes.Equal(e.Server, page.Entries[0].Server) {
			return fmt.Errorf("query %+v: rows of page %s and of page %s together", q, e.Server, page.Entries[0].Server)
		}
	}
	return nil
}

// BenchmarkCataloguePage reads a page of 100 rows of 2 kB from catalogues of different sizes.
func BenchmarkCataloguePage(b *testing.B) {
	const middle = "com.example.7e"
	for _, rows := range []int{1000, 10000, 100000} {
		s := catalogueOn(b, embedded(b))
		filled(b, s, rows, 2000)
		for _, bench := range []struct {
			name  string
			q     catalogue.Query
			after string
		}{
			{"first", catalogue.Query{}, ""},
			{"middle", catalogue.Query{}, middle},
			{"latest", catalogue.Query{Latest: true}, ""},
			{"since", catalogue.Query{Since: now().Add(time.Duration(rows/4) * time.Second), Deleted: true}, ""},
			{"search", catalogue.Query{Match: func(n string) bool { return strings.Contains(n, "00") }}, ""},
		} {
			b.Run(fmt.Sprintf("%s/%d", bench.name, rows), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					page, err := s.Page(b.Context(), bench.q, bench.after, 100)
					if err != nil || len(page.Entries) < 90 {
						b.Fatal(len(page.Entries), err)
					}
				}
			})
		}
	}
}

// BenchmarkCatalogueCommit commits 100 new rows, and 100 changed rows.
func BenchmarkCatalogueCommit(b *testing.B) {
	for name, step := range map[string]int{"new": 100, "changed": 0} {
		b.Run(name, func(b *testing.B) {
			w := openCatalogue(b, catalogueOn(b, embedded(b)))
			defer w.Close(context.Background())
			record := bytes.Repeat([]byte("x"), 2000)
			n := 0
			b.ReportAllocs()
			for b.Loop() {
				page := make([]catalogue.Entry, 100)
				for i := range page {
					page[i] = catalogue.Entry{Name: serverName(n*step + i), Version: "1", Server: record, Latest: true, Updated: now().Add(time.Duration(n))}
				}
				if err := w.Commit(b.Context(), page, nil); err != nil {
					b.Fatal(err)
				}
				n++
			}
		})
	}
}
