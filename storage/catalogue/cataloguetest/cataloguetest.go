// Package cataloguetest provides a test suite for authors of storage backends: it checks that a
// [catalogue.Catalogue] works on a backend.
//
//	func TestCatalogue(t *testing.T) {
//		cataloguetest.TestCatalogue(t, func(t *testing.T) storage.Backend { return mydriver.New(t.TempDir()) })
//	}
package cataloguetest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"gatehouse.example/storage"
	"gatehouse.example/storage/catalogue"
	"gatehouse.example/storage/storagetest"
)

// TestCatalogue checks that a [catalogue.Catalogue] works on a backend, also if its writer is
// interrupted or loses the lease. open returns a new, empty backend, which is closed at the end
// of each test.
func TestCatalogue(t *testing.T, open storagetest.Open) {
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			backend := open(t)
			t.Cleanup(func() { wantError(t, "Close", backend.Close(), nil) })
			test(t, newFixture(t, backend))
		})
	}
}

var tests = map[string]func(*testing.T, *fixture){
	"Empty":       testEmpty,
	"Entry":       testEntry,
	"Refused":     testRefused,
	"Queries":     testQueries,
	"Since":       testSince,
	"Unchanged":   testUnchanged,
	"Progress":    testProgress,
	"CursorKey":   testCursorKey,
	"Reseal":      testReseal,
	"Unreadable":  testUnreadable,
	"Down":        testDown,
	"Lease":       testLease,
	"LeaseEnds":   testLeaseEnds,
	"LeaseLost":   testLeaseLost,
	"Forgotten":   testForgotten,
	"Dies":        testDies,
	"DiesTwice":   testDiesTwice,
	"LateWrite":   testLateWrite,
	"LostReply":   testLostReply,
	"LostForGood": testLostForGood,
	"Stale":       testStale,
}

// rows has the expected rows of a catalogue.
type rows map[[2]string]catalogue.Entry

// with returns the rows after a commit.
func (r rows) with(entries ...catalogue.Entry) rows {
	next := maps.Clone(r)
	if next == nil {
		next = rows{}
	}
	for _, e := range entries {
		next[[2]string{e.Name, e.Version}] = e
	}
	return next
}

// query returns the rows that a query should select, in its order.
func (r rows) query(q catalogue.Query) (chosen []catalogue.Entry) {
	for _, e := range r {
		if (q.Deleted || e.Status != catalogue.StatusDeleted) && (!q.Latest || e.Latest) &&
			(q.Version == "" || e.Version == q.Version) && (q.Match == nil || q.Match(e.Name)) &&
			(q.Since.IsZero() || e.Updated.After(q.Since)) {
			chosen = append(chosen, e)
		}
	}
	slices.SortFunc(chosen, func(a, b catalogue.Entry) int {
		byTime := 0
		if !q.Since.IsZero() {
			byTime = a.Updated.Compare(b.Updated)
		}
		return cmp.Or(byTime, strings.Compare(a.Name, b.Name), strings.Compare(a.Version, b.Version))
	})
	return chosen
}

// entry returns a row that was updated the given number of seconds after the epoch of the tests.
func entry(server, version string, updated int, marks ...string) catalogue.Entry {
	e := catalogue.Entry{
		Name: server, Version: version, Status: "active", Origin: "https://registry.example.com",
		Server:    []byte(fmt.Sprintf(`{"name": %q, "version": %q, "<&>": " "}`, server, version)),
		Meta:      []byte(fmt.Sprintf(`{ "updated":%d }`, updated)),
		Published: epoch, Updated: epoch.Add(time.Duration(updated) * time.Second),
	}
	for _, mark := range marks {
		switch mark {
		case "latest":
			e.Latest = true
		default:
			e.Status, e.StatusChanged, e.StatusMessage = mark, e.Updated, "because"
		}
	}
	return e
}

// epoch is the publication time of rows in tests.
var epoch = time.Date(2030, time.January, 2, 3, 4, 5, 678901234, time.UTC)

// brief returns a short text for rows, for test output.
func brief(entries []catalogue.Entry) (out []string) {
	for _, e := range entries {
		mark := ""
		if e.Latest {
			mark = "*"
		}
		out = append(out, fmt.Sprintf("%s %s %s%s %d %s %s %s %v", e.Name, e.Version, e.Status, mark,
			e.Updated.Sub(epoch), e.Server, e.Meta, e.StatusMessage, e.Flags))
	}
	return out
}

// writer opens a writer of a catalogue, which is closed at the end of the test.
func writer(t *testing.T, c *catalogue.Catalogue, owner string) *catalogue.Writer {
	t.Helper()
	w, err := c.OpenWriter(t.Context(), owner)
	if err != nil {
		t.Fatalf("OpenWriter: %v", err)
	}
	t.Cleanup(func() { _ = w.Close(cancelled(t)) })
	return w
}

func commit(t *testing.T, w *catalogue.Writer, entries ...catalogue.Entry) {
	t.Helper()
	if err := w.Commit(t.Context(), entries, nil); err != nil {
		t.Fatalf("Commit: %v", err)
	}
}

// walk reads all pages of a query.
func walk(t *testing.T, c *catalogue.Catalogue, q catalogue.Query, limit int) (all []catalogue.Entry) {
	t.Helper()
	for after, more := "", true; more; {
		page, err := c.Page(t.Context(), q, after, limit)
		if err != nil {
			t.Fatalf("Page: %v", err)
		}
		if len(page.Entries) > limit || page.Unreadable > 0 || page.More == (page.Next == "") {
			t.Fatalf("a page of %d has %d rows, %d cannot be read, the next one is %t at %q", limit, len(page.Entries), page.Unreadable, page.More, page.Next)
		}
		all, after, more = append(all, page.Entries...), page.Next, page.More
	}
	return all
}

// wantRows checks the rows of a query, page by page.
func wantRows(t *testing.T, what string, c *catalogue.Catalogue, q catalogue.Query, limit int, want rows) {
	t.Helper()
	wantEntries(t, what, brief(walk(t, c, q, limit)), brief(want.query(q))...)
}

// everything is the query for all rows.
var everything = catalogue.Query{Deleted: true}

// queries has queries of each kind, for catalogues whose servers are named by letters.
func queries() map[string]catalogue.Query {
	b := func(name string) bool { return strings.Contains(name, "b") }
	since := epoch.Add(3 * time.Second)
	return map[string]catalogue.Query{
		"all": everything, "live": {}, "latest": {Latest: true}, "latest and deleted": {Latest: true, Deleted: true},
		"one version": {Version: "1.0.0"}, "one version and deleted": {Version: "1.0.0", Deleted: true},
		"a version that is latest": {Version: "1.0.0", Latest: true}, "a version that none has": {Version: "1"},
		"a name": {Match: b}, "a name and deleted": {Match: b, Deleted: true}, "latest of a name": {Match: b, Latest: true},
		"since": {Since: since, Deleted: true}, "live since": {Since: since}, "latest since": {Since: since, Latest: true, Deleted: true},
		"a version since": {Since: since, Version: "1.0.0"}, "a name since": {Since: since, Match: b, Deleted: true},
		"since ever": {Since: time.Unix(0, 0), Deleted: true}, "since tomorrow": {Since: epoch.Add(24 * time.Hour), Deleted: true},
	}
}

// wantCatalogue checks all queries, the counts, and that the lists have no stale entries.
func (f *fixture) wantCatalogue(t *testing.T, what string, want rows) {
	t.Helper()
	for name, q := range queries() {
		for _, limit := range []int{2, 100} {
			wantRows(t, fmt.Sprintf("%s: %s by %d", what, name, limit), f.Catalogue, q, limit, want)
		}
	}
	count := func(q catalogue.Query) int { return len(want.query(q)) }
	st, err := f.State(t.Context())
	wantError(t, "State", err, nil)
	live, all := count(catalogue.Query{}), count(everything)
	if st.Live != live || st.Deleted != all-live || st.Servers != count(catalogue.Query{Latest: true}) {
		t.Errorf("%s: the state counts %d servers, %d live and %d deleted rows", what, st.Servers, st.Live, st.Deleted)
	}
	f.wantLists(t, what, want)
}

// wantLists checks the number of entries of the lists, directly in the backend.
func (f *fixture) wantLists(t *testing.T, what string, want rows) {
	t.Helper()
	for kind, of := range map[string]func(catalogue.Entry) bool{
		"live":    func(e catalogue.Entry) bool { return e.Status != catalogue.StatusDeleted },
		"deleted": func(e catalogue.Entry) bool { return e.Status == catalogue.StatusDeleted },
	} {
		n, latest := 0, 0
		for _, e := range want {
			if of(e) {
				n++
				if e.Latest {
					latest++
				}
			}
		}
		for order, n := range map[string]int{"name": n, "version": n, "updated": n, "latest": latest} {
			index := "gatehouse:catalogue-" + kind + ":" + order
			if got, err := f.backend.IndexLen(t.Context(), index); err != nil || got != n {
				t.Errorf("%s: %s has %d entries, %v; want %d", what, index, got, err, n)
			}
		}
	}
}

func testEmpty(t *testing.T, f *fixture) {
	f.wantCatalogue(t, "before it began", nil)
	st, err := f.State(t.Context())
	if err != nil || st.Committed != 0 || st.CursorKey != nil || st.Leased {
		t.Errorf("before it began the state is %+v, %v", st, err)
	}
	writer(t, f.Catalogue, "ann")
	f.wantCatalogue(t, "before something was committed", nil)
	_, err = f.Entry(t.Context(), "example/a", "1.0.0")
	wantError(t, "Entry", err, storage.ErrNotFound)
	_, err = f.Latest(t.Context(), "example/a")
	wantError(t, "Latest", err, storage.ErrNotFound)
	versions, err := f.Versions(t.Context(), "example/a", nil)
	if err != nil || len(versions) != 0 {
		t.Errorf("Versions returned %d, %v", len(versions), err)
	}
}

// testEntry: a row is returned as it was committed, byte for byte.
func testEntry(t *testing.T, f *fixture) {
	w := writer(t, f.Catalogue, "ann")
	full := entry("com.example/full", "1.0.0-α+ü (x)", 1, "deprecated", "latest")
	full.Server = []byte("{\n\t\"<b>\" : \"\u2028&\xff\\u0041\"  }\r\n")
	full.Meta = []byte(" not JSON at all \x00\xff")
	full.Flags = []string{"mismatch", "second"}
	full.Updated = epoch.In(time.FixedZone("", 3600)).Add(time.Nanosecond)
	bare := catalogue.Entry{Name: "b", Version: "0", Server: []byte("x")}
	var st [2]catalogue.State
	for i, e := range []catalogue.Entry{full, bare} {
		f.clock.advance(time.Second)
		commit(t, w, e)
		var err error
		if st[i], err = f.State(t.Context()); err != nil || !st[i].Changed.Equal(f.clock.Now()) {
			t.Errorf("the state was changed at %v, %v", st[i].Changed, err)
		}
		got, err := f.Entry(t.Context(), e.Name, e.Version)
		wantError(t, "Entry", err, nil)
		if !got.Updated.Equal(e.Updated) || got.Updated.Location() != time.UTC {
			t.Errorf("it was updated at %v; want %v, in UTC", got.Updated, e.Updated)
		}
		got.Updated, e.Updated = time.Time{}, time.Time{}
		if a, b := fmt.Sprintf("%#v", got), fmt.Sprintf("%#v", e); a != b {
			t.Errorf("Entry returned\n%s; want\n%s", a, b)
		}
	}
	if st[1].Committed <= st[0].Committed {
		t.Errorf("the number of the last page went from %d to %d", st[0].Committed, st[1].Committed)
	}
	_, err := f.Entry(t.Context(), "b", "1")
	wantError(t, "Entry of another version", err, storage.ErrNotFound)
	next := full
	next.Meta, next.Server, next.Latest, next.Status = nil, []byte("shorter"), false, catalogue.StatusDeleted
	commit(t, w, next)
	got, err := f.Entry(t.Context(), full.Name, full.Version)
	if err != nil || string(got.Server) != "shorter" || got.Meta != nil {
		t.Errorf("the next version of it has %q, %q, %v", got.Server, got.Meta, err)
	}
}

// testRefused: a commit with an invalid entry, or with two entries for one row, is refused as a
// whole.
func testRefused(t *testing.T, f *fixture) {
	w := writer(t, f.Catalogue, "ann")
	good := entry("example/a", "1.0.0", 1)
	for what, change := range map[string]func(*catalogue.Entry){
		"no name":           func(e *catalogue.Entry) { e.Name = "" },
		"no version":        func(e *catalogue.Entry) { e.Version = "" },
		"a long name":       func(e *catalogue.Entry) { e.Name = strings.Repeat("x", 513) },
		"NUL in the name":   func(e *catalogue.Entry) { e.Name = "a\x00b" },
		"\\x01 in the name": func(e *catalogue.Entry) { e.Name = "a\x01" },
		"a line break":      func(e *catalogue.Entry) { e.Version = "1\n2" },
		"DEL":               func(e *catalogue.Entry) { e.Version = "1\x7f" },
		"bytes":             func(e *catalogue.Entry) { e.Version = "\xff" },
		"no record":         func(e *catalogue.Entry) { e.Server = nil },
		"before all time":   func(e *catalogue.Entry) { e.Updated = time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC) },
		"after all time":    func(e *catalogue.Entry) { e.Published = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) },
		"twice":             func(e *catalogue.Entry) { *e = good },
	} {
		bad := entry("example/b", "1.0.0", 1)
		change(&bad)
		wantError(t, what, w.Commit(t.Context(), []catalogue.Entry{good, bad}, nil), catalogue.ErrEntry)
	}
	wantError(t, "progress that is not JSON", w.Commit(t.Context(), []catalogue.Entry{good}, []byte("{")), catalogue.ErrEntry)
	many := make([]catalogue.Entry, catalogue.MaxCommit+1)
	for i := range many {
		many[i] = entry("example/many", name("%d", i), 1)
	}
	wantError(t, "too many", w.Commit(t.Context(), many, nil), catalogue.ErrEntry)
	f.wantCatalogue(t, "after refusals", nil)
	long := entry(strings.Repeat("n", 512), strings.Repeat("v", 512), 1, "latest")
	commit(t, w, good, long)
	f.wantCatalogue(t, "after what is good", rows{}.with(good, long))
}

// New returns a catalogue on a backend, which is closed at the end of the test.
func New(t testing.TB, backend storage.Backend) *catalogue.Catalogue {
	t.Helper()
	store, err := storage.New(backend, storage.Options{Issuer: issuer})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return catalogue.New(store)
}
