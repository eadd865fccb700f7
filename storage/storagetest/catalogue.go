package storagetest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"gatehouse.example/storage"
)

var catalogueTests = suite{
	"CatalogueEmpty":       testCatalogueEmpty,
	"CatalogueEntry":       testCatalogueEntry,
	"CatalogueRefused":     testCatalogueRefused,
	"CatalogueQueries":     testCatalogueQueries,
	"CatalogueSince":       testCatalogueSince,
	"CatalogueUnchanged":   testCatalogueUnchanged,
	"CatalogueProgress":    testCatalogueProgress,
	"CatalogueCursorKey":   testCatalogueCursorKey,
	"CatalogueReseal":      testCatalogueReseal,
	"CatalogueUnreadable":  testCatalogueUnreadable,
	"CatalogueDown":        testCatalogueDown,
	"CatalogueLease":       testCatalogueLease,
	"CatalogueLeaseEnds":   testCatalogueLeaseEnds,
	"CatalogueLeaseLost":   testCatalogueLeaseLost,
	"CatalogueForgotten":   testCatalogueForgotten,
	"CatalogueDies":        testCatalogueDies,
	"CatalogueDiesTwice":   testCatalogueDiesTwice,
	"CatalogueLateWrite":   testCatalogueLateWrite,
	"CatalogueLostReply":   testCatalogueLostReply,
	"CatalogueLostForGood": testCatalogueLostForGood,
	"CatalogueStale":       testCatalogueStale,
}

// rows is what a catalogue should hold.
type rows map[[2]string]storage.CatalogueEntry

// with returns the rows after a commit.
func (r rows) with(entries ...storage.CatalogueEntry) rows {
	next := maps.Clone(r)
	if next == nil {
		next = rows{}
	}
	for _, e := range entries {
		next[[2]string{e.Name, e.Version}] = e
	}
	return next
}

// query is what a query should choose, in its order.
func (r rows) query(q storage.CatalogueQuery) (chosen []storage.CatalogueEntry) {
	for _, e := range r {
		if (q.Deleted || e.Status != storage.CatalogueDeleted) && (!q.Latest || e.Latest) &&
			(q.Version == "" || e.Version == q.Version) && (q.Match == nil || q.Match(e.Name)) &&
			(q.Since.IsZero() || e.Updated.After(q.Since)) {
			chosen = append(chosen, e)
		}
	}
	slices.SortFunc(chosen, func(a, b storage.CatalogueEntry) int {
		byTime := 0
		if !q.Since.IsZero() {
			byTime = a.Updated.Compare(b.Updated)
		}
		return cmp.Or(byTime, strings.Compare(a.Name, b.Name), strings.Compare(a.Version, b.Version))
	})
	return chosen
}

// entry is a row that was updated so many seconds after the epoch of the tests.
func entry(server, version string, updated int, marks ...string) storage.CatalogueEntry {
	e := storage.CatalogueEntry{
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

// epoch is when rows of tests were published.
var epoch = time.Date(2030, time.January, 2, 3, 4, 5, 678901234, time.UTC)

// brief is what a test shows of rows.
func brief(entries []storage.CatalogueEntry) (out []string) {
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

// writer opens a catalogue to write. What it leaves is closed at the end of the test.
func writer(t *testing.T, s *storage.Store, owner string) *storage.CatalogueWriter {
	t.Helper()
	w, err := s.OpenCatalogue(t.Context(), owner)
	if err != nil {
		t.Fatalf("OpenCatalogue: %v", err)
	}
	t.Cleanup(func() { _ = w.Close(cancelled(t)) })
	return w
}

func commit(t *testing.T, w *storage.CatalogueWriter, entries ...storage.CatalogueEntry) {
	t.Helper()
	if err := w.Commit(t.Context(), entries, nil); err != nil {
		t.Fatalf("Commit: %v", err)
	}
}

// walk reads all pages of a query.
func walk(t *testing.T, s *storage.Store, q storage.CatalogueQuery, limit int) (all []storage.CatalogueEntry) {
	t.Helper()
	for after, more := "", true; more; {
		page, err := s.CataloguePage(t.Context(), q, after, limit)
		if err != nil {
			t.Fatalf("CataloguePage: %v", err)
		}
		if len(page.Entries) > limit || page.Unreadable > 0 || page.More == (page.Next == "") {
			t.Fatalf("a page of %d has %d rows, %d cannot be read, the next one is %t at %q", limit, len(page.Entries), page.Unreadable, page.More, page.Next)
		}
		all, after, more = append(all, page.Entries...), page.Next, page.More
	}
	return all
}

// wantRows checks the rows of a query, page by page.
func wantRows(t *testing.T, what string, s *storage.Store, q storage.CatalogueQuery, limit int, want rows) {
	t.Helper()
	wantEntries(t, what, brief(walk(t, s, q, limit)), brief(want.query(q))...)
}

// everything is the query for all rows.
var everything = storage.CatalogueQuery{Deleted: true}

// queries are of each kind, for catalogues whose servers are named after letters.
func queries() map[string]storage.CatalogueQuery {
	b := func(name string) bool { return strings.Contains(name, "b") }
	since := epoch.Add(3 * time.Second)
	return map[string]storage.CatalogueQuery{
		"all": everything, "live": {}, "latest": {Latest: true}, "latest and deleted": {Latest: true, Deleted: true},
		"one version": {Version: "1.0.0"}, "one version and deleted": {Version: "1.0.0", Deleted: true},
		"a version that is latest": {Version: "1.0.0", Latest: true}, "a version that none has": {Version: "1"},
		"a name": {Match: b}, "a name and deleted": {Match: b, Deleted: true}, "latest of a name": {Match: b, Latest: true},
		"since": {Since: since, Deleted: true}, "live since": {Since: since}, "latest since": {Since: since, Latest: true, Deleted: true},
		"a version since": {Since: since, Version: "1.0.0"}, "a name since": {Since: since, Match: b, Deleted: true},
		"since ever": {Since: time.Unix(0, 0), Deleted: true}, "since tomorrow": {Since: epoch.Add(24 * time.Hour), Deleted: true},
	}
}

// wantCatalogue checks everything that can be asked, the counts, and that the lists hold
// no entry too many.
func (f *fixture) wantCatalogue(t *testing.T, what string, want rows) {
	t.Helper()
	for name, q := range queries() {
		for _, limit := range []int{2, 100} {
			wantRows(t, fmt.Sprintf("%s: %s by %d", what, name, limit), f.Store, q, limit, want)
		}
	}
	count := func(q storage.CatalogueQuery) int { return len(want.query(q)) }
	st, err := f.CatalogueState(t.Context())
	wantError(t, "CatalogueState", err, nil)
	live, all := count(storage.CatalogueQuery{}), count(everything)
	if st.Live != live || st.Deleted != all-live || st.Servers != count(storage.CatalogueQuery{Latest: true}) {
		t.Errorf("%s: the state counts %d servers, %d live and %d deleted rows", what, st.Servers, st.Live, st.Deleted)
	}
	f.wantLists(t, what, want)
}

// wantLists checks how many entries the lists have, behind the back of the Store.
func (f *fixture) wantLists(t *testing.T, what string, want rows) {
	t.Helper()
	for kind, of := range map[string]func(storage.CatalogueEntry) bool{
		"live":    func(e storage.CatalogueEntry) bool { return e.Status != storage.CatalogueDeleted },
		"deleted": func(e storage.CatalogueEntry) bool { return e.Status == storage.CatalogueDeleted },
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

func testCatalogueEmpty(t *testing.T, f *fixture) {
	f.wantCatalogue(t, "before it began", nil)
	st, err := f.CatalogueState(t.Context())
	if err != nil || st.Committed != 0 || st.CursorKey != nil || st.Leased {
		t.Errorf("before it began the state is %+v, %v", st, err)
	}
	writer(t, f.Store, "ann")
	f.wantCatalogue(t, "before something was committed", nil)
	_, err = f.CatalogueEntry(t.Context(), "example/a", "1.0.0")
	wantError(t, "CatalogueEntry", err, storage.ErrNotFound)
	_, err = f.CatalogueLatest(t.Context(), "example/a")
	wantError(t, "CatalogueLatest", err, storage.ErrNotFound)
	versions, err := f.CatalogueVersions(t.Context(), "example/a", nil)
	if err != nil || len(versions) != 0 {
		t.Errorf("CatalogueVersions returned %d, %v", len(versions), err)
	}
}

// testCatalogueEntry: a row comes back as it was committed, byte for byte.
func testCatalogueEntry(t *testing.T, f *fixture) {
	w := writer(t, f.Store, "ann")
	full := entry("com.example/full", "1.0.0-α+ü (x)", 1, "deprecated", "latest")
	full.Server = []byte("{\n\t\"<b>\" : \"\u2028&\xff\\u0041\"  }\r\n")
	full.Meta = []byte(" not JSON at all \x00\xff")
	full.Flags = []string{"mismatch", "second"}
	full.Updated = epoch.In(time.FixedZone("", 3600)).Add(time.Nanosecond)
	bare := storage.CatalogueEntry{Name: "b", Version: "0", Server: []byte("x")}
	var st [2]storage.CatalogueState
	for i, e := range []storage.CatalogueEntry{full, bare} {
		f.clock.advance(time.Second)
		commit(t, w, e)
		var err error
		if st[i], err = f.CatalogueState(t.Context()); err != nil || !st[i].Changed.Equal(f.clock.Now()) {
			t.Errorf("the state was changed at %v, %v", st[i].Changed, err)
		}
		got, err := f.CatalogueEntry(t.Context(), e.Name, e.Version)
		wantError(t, "CatalogueEntry", err, nil)
		if !got.Updated.Equal(e.Updated) || got.Updated.Location() != time.UTC {
			t.Errorf("it was updated at %v; want %v, in UTC", got.Updated, e.Updated)
		}
		got.Updated, e.Updated = time.Time{}, time.Time{}
		if a, b := fmt.Sprintf("%#v", got), fmt.Sprintf("%#v", e); a != b {
			t.Errorf("CatalogueEntry returned\n%s; want\n%s", a, b)
		}
	}
	if st[1].Committed <= st[0].Committed {
		t.Errorf("the number of the last page went from %d to %d", st[0].Committed, st[1].Committed)
	}
	_, err := f.CatalogueEntry(t.Context(), "b", "1")
	wantError(t, "CatalogueEntry of another version", err, storage.ErrNotFound)
	next := full
	next.Meta, next.Server, next.Latest, next.Status = nil, []byte("shorter"), false, storage.CatalogueDeleted
	commit(t, w, next)
	got, err := f.CatalogueEntry(t.Context(), full.Name, full.Version)
	if err != nil || string(got.Server) != "shorter" || got.Meta != nil {
		t.Errorf("the next version of it has %q, %q, %v", got.Server, got.Meta, err)
	}
}

// testCatalogueRefused: what could not be found again, or would be two things at once, is
// refused as a whole.
func testCatalogueRefused(t *testing.T, f *fixture) {
	w := writer(t, f.Store, "ann")
	good := entry("example/a", "1.0.0", 1)
	for what, change := range map[string]func(*storage.CatalogueEntry){
		"no name":           func(e *storage.CatalogueEntry) { e.Name = "" },
		"no version":        func(e *storage.CatalogueEntry) { e.Version = "" },
		"a long name":       func(e *storage.CatalogueEntry) { e.Name = strings.Repeat("x", 513) },
		"NUL in the name":   func(e *storage.CatalogueEntry) { e.Name = "a\x00b" },
		"\\x01 in the name": func(e *storage.CatalogueEntry) { e.Name = "a\x01" },
		"a line break":      func(e *storage.CatalogueEntry) { e.Version = "1\n2" },
		"DEL":               func(e *storage.CatalogueEntry) { e.Version = "1\x7f" },
		"bytes":             func(e *storage.CatalogueEntry) { e.Version = "\xff" },
		"no record":         func(e *storage.CatalogueEntry) { e.Server = nil },
		"before all time":   func(e *storage.CatalogueEntry) { e.Updated = time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC) },
		"after all time":    func(e *storage.CatalogueEntry) { e.Published = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) },
		"twice":             func(e *storage.CatalogueEntry) { *e = good },
	} {
		bad := entry("example/b", "1.0.0", 1)
		change(&bad)
		wantError(t, what, w.Commit(t.Context(), []storage.CatalogueEntry{good, bad}, nil), storage.ErrEntry)
	}
	wantError(t, "progress that is not JSON", w.Commit(t.Context(), []storage.CatalogueEntry{good}, []byte("{")), storage.ErrEntry)
	many := make([]storage.CatalogueEntry, storage.MaxCommit+1)
	for i := range many {
		many[i] = entry("example/many", name("%d", i), 1)
	}
	wantError(t, "too many", w.Commit(t.Context(), many, nil), storage.ErrEntry)
	f.wantCatalogue(t, "after refusals", nil)
	long := entry(strings.Repeat("n", 512), strings.Repeat("v", 512), 1, "latest")
	commit(t, w, good, long)
	f.wantCatalogue(t, "after what is good", rows{}.with(good, long))
}
