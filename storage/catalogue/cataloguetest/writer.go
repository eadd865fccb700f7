package cataloguetest

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"gatehouse.example/storage"
	"gatehouse.example/storage/catalogue"
)

// leaseTime is longer than a lease. renewed is the longest time between two writes of a writer
// after which the second one succeeds.
const (
	leaseTime = 5 * time.Second
	renewed   = leaseTime - 2500*time.Millisecond
)

// testLease: one writer has the lease; when it closes, the next one gets the lease at once.
func testLease(t *testing.T, f *fixture) {
	w := writer(t, f.Catalogue, "ann")
	until := f.clock.Now().Add(leaseTime)
	st, err := f.State(t.Context())
	if err != nil || !st.Leased || st.Owner != "ann" || !st.LeaseUntil.Equal(until) {
		t.Errorf("the state is leased %t to %q until %v, %v; want ann, %v", st.Leased, st.Owner, st.LeaseUntil, err, until)
	}
	for _, owner := range []string{"bob", "ann"} {
		_, err = f.OpenWriter(t.Context(), owner)
		var leased *catalogue.LeasedError
		if !errors.Is(err, catalogue.ErrLeased) || !errors.As(err, &leased) || leased.Owner != "ann" || !leased.Until.Equal(until) {
			t.Errorf("OpenWriter for %s while ann has it returned error %v", owner, err)
		}
	}
	commit(t, w, entry("a", "1", 1))
	wantError(t, "Close", w.Close(t.Context()), nil)
	wantError(t, "Close again", w.Close(t.Context()), nil)
	if err := w.Commit(t.Context(), nil, nil); err == nil || errors.Is(err, catalogue.ErrLeased) {
		t.Errorf("Commit after Close returned error %v", err)
	}
	if st, err := f.State(t.Context()); err != nil || st.Leased || st.Owner != "" {
		t.Errorf("after Close the state is leased %t to %q, %v", st.Leased, st.Owner, err)
	}
	next := writer(t, f.Catalogue, "bob")
	commit(t, next, entry("b", "1", 1))
	if err := w.Commit(t.Context(), []catalogue.Entry{entry("c", "1", 1)}, nil); err == nil {
		t.Error("a closed writer commits")
	}
	wantError(t, "Close a third time", w.Close(t.Context()), nil)
	commit(t, next, entry("d", "1", 1))
	f.wantCatalogue(t, "after two writers", rows{}.with(entry("a", "1", 1), entry("b", "1", 1), entry("d", "1", 1)))

	owners := make([]*catalogue.Writer, 8)
	wantError(t, "Close", next.Close(t.Context()), nil)
	errs := together(len(owners), func(i int) (err error) {
		owners[i], err = f.OpenWriter(t.Context(), name("%d", i))
		return err
	})
	wantError(t, "Close", owners[wantOneWinner(t, errs, catalogue.ErrLeased)].Close(t.Context()), nil)
}

// testLeaseEnds: a lease that is not renewed ends at its time. Every write renews it, and near its
// end no row is written.
func testLeaseEnds(t *testing.T, f *fixture) {
	own := f.process()
	w := writer(t, f.on(t, own), "ann")
	for i := range 5 {
		f.clock.advance(time.Duration(i) * leaseTime) // a lease that no other writer takes can be renewed after its end
		commit(t, w, entry("a", name("%d", i), i))
	}
	// In the middle of a page: the lease was renewed when the page began.
	own.afterPut("gatehouse:catalogue-row:late\x001", func() {
		own.set(func() { own.quiet = true })
		f.clock.advance(renewed + time.Millisecond)
	})
	err := w.Commit(watched(t.Context()), []catalogue.Entry{entry("late", "1", 1), entry("too late", "1", 1)}, nil)
	wantUnavailable(t, "Commit near the end of the lease", err)
	_, err = f.Entry(t.Context(), "late", "1")
	wantError(t, "Entry", err, storage.ErrNotFound)
	if n := f.wrote("gatehouse:catalogue-row:too late\x001"); n != 0 {
		t.Errorf("near the end of the lease a row was written %d times", n)
	}
	own.kill()
	// Another writer gets the lease at its end, and not before.
	f.clock.advance(2*time.Second + 498*time.Millisecond)
	_, err = f.OpenWriter(t.Context(), "bob")
	wantError(t, "OpenWriter a moment before the end", err, catalogue.ErrLeased)
	f.clock.advance(time.Millisecond)
	next := writer(t, f.Catalogue, "bob")
	commit(t, next, entry("b", "1", 1))
	own.revive()
	err = w.Commit(t.Context(), []catalogue.Entry{entry("c", "1", 1)}, nil)
	wantError(t, "Commit of the one before", err, catalogue.ErrLeased)
	wantError(t, "Close of the one before", w.Close(t.Context()), nil)
	want := rows{}.with(entry("b", "1", 1))
	for i := range 5 {
		want = want.with(entry("a", name("%d", i), i))
	}
	commit(t, next)
	f.wantCatalogue(t, "after the takeover", want)
}

// testLeaseLost: a writer that loses the lease at any change commits nothing more and does not
// damage the commits of the next writer.
func testLeaseLost(t *testing.T, f *fixture) {
	var want rows
	for k := range f.places(t) {
		own := f.process()
		w := writer(t, f.on(t, own), "ann")
		want = f.prepared(t, w, want, k)
		page, other := pageOf(k), entry("other", name("%d", k), k)
		var next *catalogue.Writer
		own.beforeChange(k, func() {
			f.clock.advance(leaseTime)
			next = writer(t, f.Catalogue, "bob")
			commit(t, next, append(rows{}.with(page[1], other).query(everything), changed(page[0]))...)
		})
		err := w.Commit(watched(t.Context()), page, []byte(name("%d", k)))
		if next == nil {
			wantError(t, "Commit of the only writer", err, nil)
			f.comb(t, w, k)
			f.wantCatalogue(t, "after the only writer", want.with(page...).with(combed))
			return
		}
		if !f.has(t, page[2]) {
			wantError(t, "Commit of the one before", err, catalogue.ErrLeased)
		} else {
			want = want.with(page...)
		}
		wantError(t, "Commit of the one before, again", w.Commit(t.Context(), page, nil), catalogue.ErrLeased)
		want = want.with(page[1], other, changed(page[0]))
		commit(t, next)
		f.wantSeen(t, name("taken over before change %d", k), want)
		wantError(t, "Close of the one before", w.Close(t.Context()), nil)
		wantError(t, "Close", next.Close(t.Context()), nil)
	}
}

// changed returns a changed copy of a row.
func changed(e catalogue.Entry) catalogue.Entry {
	e.Flags = []string{"changed"}
	e.Latest = !e.Latest
	return e
}

// prepared commits the rows that pageOf changes, in their state before.
func (f *fixture) prepared(t *testing.T, w *catalogue.Writer, have rows, k int) rows {
	t.Helper()
	before := []catalogue.Entry{
		entry("a", "1.0.0", 2*k, "latest"), entry("b", "1.0.0", 2*k, catalogue.StatusDeleted), entry("c", "1.0.0", 7), entry("d", "1.0.0", 8, "latest"),
	}
	if err := w.Commit(t.Context(), before, nil); err != nil {
		t.Fatalf("Commit: %v", err)
	}
	return have.with(before...)
}

// pageOf returns a page with a change of each kind: a row that is not the latest any more, a
// restored row, a row with other Meta and message, a new latest row, a new deleted row.
func pageOf(k int) []catalogue.Entry {
	meta := entry("c", "1.0.0", 7)
	meta.Meta, meta.StatusMessage = []byte(name("%d", k)), "new message"
	return []catalogue.Entry{
		entry("a", "1.0.0", 2*k+1), entry("b", "1.0.0", 2*k+1, "latest"), entry("a", name("1.1.%d", k), 2*k+1, "latest"),
		meta, entry("e", name("%d", k), 2*k+1, catalogue.StatusDeleted),
	}
}

// has reports whether a row is visible to readers.
func (f *fixture) has(t *testing.T, e catalogue.Entry) bool {
	t.Helper()
	_, err := f.Entry(t.Context(), e.Name, e.Version)
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		t.Fatal(err)
	}
	return err == nil
}

// seen has queries that together read every list.
var seen = []catalogue.Query{
	everything, {Latest: true, Deleted: true}, {Since: epoch.Add(-time.Hour), Deleted: true}, {}, {Version: "1.0.0", Deleted: true},
}

// wantSeen checks that readers see one of the wanted catalogues, and returns it.
func (f *fixture) wantSeen(t *testing.T, what string, wanted ...rows) (which int) {
	t.Helper()
	return f.wantOne(t, what, seen, wanted)
}

// glance checks one of the queries, a different one with each call. Tests call it where checking
// all queries would take too long.
func (f *fixture) glance(t *testing.T, what string, wanted ...rows) {
	t.Helper()
	f.glances++
	f.wantOne(t, what, seen[f.glances%len(seen):][:1], wanted)
}

func (f *fixture) wantOne(t *testing.T, what string, queries []catalogue.Query, wanted []rows) int {
	t.Helper()
	pages := make([][]catalogue.Entry, len(queries))
	for i, q := range queries {
		page, err := f.Page(t.Context(), q, "", 1000)
		if err != nil || page.More {
			t.Fatalf("%s: CataloguePage: more %t, %v", what, page.More, err)
		}
		pages[i] = page.Entries
	}
	wrong := ""
	for which, want := range wanted {
		wrong = ""
		for i, q := range queries {
			if chosen := want.query(q); !slices.EqualFunc(pages[i], chosen, alike) {
				wrong = fmt.Sprintf("query %+v chooses\n%s\nwant\n%s", q, strings.Join(brief(pages[i]), "\n"), strings.Join(brief(chosen), "\n"))
				break
			}
		}
		if wrong == "" {
			return which
		}
	}
	t.Fatalf("%s: none of %d catalogues is there: %.3000s", what, len(wanted), wrong)
	return -1
}

// alike reports whether two rows are equal.
func alike(a, b catalogue.Entry) bool {
	return a.Name == b.Name && a.Version == b.Version && a.Status == b.Status && a.StatusMessage == b.StatusMessage &&
		a.Latest == b.Latest && a.Origin == b.Origin && a.Published.Equal(b.Published) && a.Updated.Equal(b.Updated) &&
		a.StatusChanged.Equal(b.StatusChanged) && bytes.Equal(a.Server, b.Server) && bytes.Equal(a.Meta, b.Meta) && slices.Equal(a.Flags, b.Flags)
}

// wrote counts the writes to a key.
func (f *fixture) wrote(key string) (n int) {
	for _, put := range f.backend.Writes() {
		if put.Key == key {
			n++
		}
	}
	return n
}

// combed is a row of a page after which all leftovers are older than the last page.
var combed = entry("last", "1", 1)

// places returns the numbers of the changes at which a test injects a fault: all of them or, if
// reads are slow, every seventh from a random one of the first seven.
func (f *fixture) places(t *testing.T) iter.Seq[int] {
	t.Helper()
	took := make([]time.Duration, 21)
	for i := range took {
		begin := time.Now()
		_ = f.Ping(t.Context())
		took[i] = time.Since(begin)
	}
	slices.Sort(took)
	first, step := 0, 1
	if took[len(took)/2] > 30*time.Microsecond {
		step = 7
		first = rand.IntN(step)
		t.Logf("every seventh change from %d", first)
	}
	return func(yield func(int) bool) {
		for k := first; yield(k); k += step {
		}
	}
}

// comb reads every position of every list at which pages before the k-th may have left entries.
func (f *fixture) comb(t *testing.T, w *catalogue.Writer, k int) {
	t.Helper()
	commit(t, w, combed)
	for i := range k + 1 {
		for _, version := range []string{name("%d", i), name("1.1.%d", i)} {
			walk(t, f.Catalogue, catalogue.Query{Version: version, Deleted: true}, 100)
		}
	}
	for _, q := range seen {
		for range 8 {
			walk(t, f.Catalogue, q, 10)
		}
	}
}
