package serve_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"gatehouse.example/registry/serve"
	"gatehouse.example/storage"
	"gatehouse.example/storage/catalogue"
	"gatehouse.example/storage/catalogue/cataloguetest"
)

// searched does a search and returns the names found and whether more may follow. The counts of
// m are those of the search.
func (m *metered) searched(t *testing.T, d *desk, target string) (names []string, more bool) {
	t.Helper()
	m.reset()
	w := d.get(target)
	if w.Code != 200 {
		t.Fatalf("%s: %d %s", target, w.Code, w.Body)
	}
	l := readList(t, w.Body.Bytes())
	return l.names(), l.Metadata.NextCursor != nil
}

// manyServers commits n servers of three versions each. The names of twenty contain rare.
func manyServers(t testing.TB, d *desk, n int) {
	t.Helper()
	var page []catalogue.Entry
	for i := range n {
		name := fmt.Sprintf("com.example.%03d/server-%06d", i%997, i)
		if i%(n/20) == 0 {
			name = fmt.Sprintf("com.example.%03d/Rare-%06d", i%997, i)
		}
		for v := range 3 {
			e := rowOf(name, fmt.Sprintf("1.%d.0", v), func(e *catalogue.Entry) { e.Latest = v == 2 })
			page = append(page, e)
		}
		if len(page) > catalogue.MaxCommit-3 || i == n-1 {
			d.commit(page...)
			page = nil
		}
	}
}

// warm searches until the names are read.
func (d *desk) warm(m *metered) {
	d.t.Helper()
	for range 100 {
		m.reset()
		if d.get("/v0.1/servers?search=warm"); m.lists.Load() <= 1 {
			return
		}
	}
	d.t.Fatal("the names are not read")
}

// TestSearchReadsWhatItFinds: in a catalogue of any size, a search reads only the rows that it
// finds and list entries beside them.
func TestSearchReadsWhatItFinds(t *testing.T) {
	for _, servers := range []int{2000, 12_000} {
		d, m := newMeteredDesk(t, serve.Config{})
		manyServers(t, d, servers)
		d.warm(m)
		const rare = 20
		for _, test := range []struct {
			query              string
			found, rows, lists int
			more               bool
		}{
			{"search=nowhere&limit=100", 0, 0, 1, false},
			{"search=rare&limit=100", 3 * rare, 3 * rare, 2*rare + 1, false},
			{"search=RARE-&version=latest&limit=100", rare, 9 * rare, 2*rare + 1, false},
			{"search=rare&version=1.1.0&limit=100", rare, 9 * rare, 2*rare + 1, false},
			{"search=server&limit=30", 30, 31, 3, true},
			{"search=server&version=latest&limit=100", 100, 101, 8, true},
			{"search=" + strings.Repeat("server", 30), 0, 0, 1, false},
		} {
			names, more := m.searched(t, d, "/v0.1/servers?"+test.query)
			if len(names) != test.found || more != test.more || m.items.Load() > int64(test.rows) || m.lists.Load() > int64(test.lists) {
				t.Errorf("%d servers, %s: %d rows, more %t, after %d rows and %d pages of lists; want %+v", servers, test.query, len(names), more, m.items.Load(), m.lists.Load(), test)
			}
		}
	}
}

// TestSearchFollowsTheCatalogue: every process finds the rows of every commit at once, and no
// deleted rows. The pages of a search together are complete.
func TestSearchFollowsTheCatalogue(t *testing.T) {
	d, _ := newMeteredDesk(t, serve.Config{})
	other := d.serve(serve.Config{})
	progress, err := json.Marshal(map[string]any{"stamp": day(3)})
	if err != nil {
		t.Fatal(err)
	}
	commit := func(progress json.RawMessage, rows ...catalogue.Entry) {
		t.Helper()
		if err := d.writer.Commit(t.Context(), rows, progress); err != nil {
			t.Fatal(err)
		}
	}
	check := func(search string, want ...string) {
		t.Helper()
		for _, h := range []*serve.Handler{d.handler, other} {
			w := ask(h, "GET", "/v0.1/servers?search="+search)
			if got := readList(t, w.Body.Bytes()).names(); !slices.Equal(got, want) && len(got)+len(want) > 0 {
				t.Errorf("%s: %q, want %q", search, got, want)
			}
		}
	}
	check("notes")
	commit(progress, rowOf("com.example/notes", "1.0.0", updatedAt(day(3))), rowOf("com.example/zebra", "1.0.0", updatedAt(day(3))))
	check("notes", "com.example/notes 1.0.0")
	check("EXAMPLE/", "com.example/notes 1.0.0", "com.example/zebra 1.0.0")
	// Later rows have later update times, as the mirror sets them.
	progress, _ = json.Marshal(map[string]any{"stamp": day(4)})
	commit(progress, rowOf("com.example/Notes-2", "1.0.0", updatedAt(day(4))), rowOf("com.example/zebra", "2.0.0", updatedAt(day(4))))
	check("notes", "com.example/Notes-2 1.0.0", "com.example/notes 1.0.0")
	check("zebra", "com.example/zebra 1.0.0", "com.example/zebra 2.0.0")
	// Rows of a commit without a stamp in the progress are found as well.
	commit(json.RawMessage(`{}`), rowOf("com.example/anotes", "1.0.0", updatedAt(day(1))))
	check("notes", "com.example/Notes-2 1.0.0", "com.example/anotes 1.0.0", "com.example/notes 1.0.0")
	commit(nil, rowOf("com.example/notes", "1.0.0", isDeleted, updatedAt(day(9))))
	check("notes", "com.example/Notes-2 1.0.0", "com.example/anotes 1.0.0")
	check("anotes%0Acom")
}

// slowNames blocks the first reading of all names.
type slowNames struct {
	storage.Backend
	held atomic.Bool
	hold chan struct{}
}

func (s *slowNames) IndexPage(ctx context.Context, index, after string, limit int) ([]string, error) {
	if after == "" && s.held.CompareAndSwap(false, true) {
		<-s.hold
	}
	return s.Backend.IndexPage(ctx, index, after, limit)
}

// TestSearchWhileTheNamesAreRead: while the index of names is not ready, a search reads a part
// of the list, and its cursor leads to the rest.
func TestSearchWhileTheNamesAreRead(t *testing.T) {
	d, m := newMeteredDesk(t, serve.Config{})
	manyServers(t, d, 8000)
	slow := &slowNames{Backend: m, hold: make(chan struct{})}
	h, err := serve.New(serve.Config{Catalogue: cataloguetest.New(t, slow)})
	if err != nil {
		t.Fatal(err)
	}
	m.reset()
	w := ask(h, "GET", "/v0.1/servers?search=example.996/&limit=100")
	first := readList(t, w.Body.Bytes())
	if w.Code != 200 || len(first.Servers) != 0 || first.Metadata.NextCursor == nil || m.lists.Load() > 21 {
		t.Errorf("%d with %d rows after %d pages of lists", w.Code, len(first.Servers), m.lists.Load())
	}
	close(slow.hold)
	w = ask(h, "GET", "/v0.1/servers?search=example.996/&limit=100&cursor="+*first.Metadata.NextCursor)
	if second := readList(t, w.Body.Bytes()); len(second.Servers) != 24 || second.Metadata.NextCursor != nil {
		t.Errorf("the second page: %d %q", w.Code, second.names())
	}
}

// BenchmarkSearch measures searches among few and many servers of three versions.
func BenchmarkSearch(b *testing.B) {
	for _, servers := range []int{2000, 100_000} {
		d, m := newMeteredDesk(b, serve.Config{})
		manyServers(b, d, servers)
		d.warm(m)
		for _, search := range []string{"nowhere", "rare", "server"} {
			b.Run(fmt.Sprintf("%s/%d", search, servers), func(b *testing.B) {
				m.reset()
				n := 0
				for b.Loop() {
					n++ // each search is different, because answers are cached
					d.get(fmt.Sprintf("/v0.1/servers?limit=%d&search=%s", 30+n%70, search))
				}
				b.ReportMetric(float64(m.lists.Load())/float64(n), "lists/op")
				b.ReportMetric(float64(m.items.Load())/float64(n), "rows/op")
			})
		}
	}
}
