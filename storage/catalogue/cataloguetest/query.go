package cataloguetest

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"gatehouse.example/storage"
	"gatehouse.example/storage/catalogue"
	"gatehouse.example/storage/storagetest"
)

// shuffled returns a page of random changes to a small catalogue.
func shuffled(random *rand.Rand, have rows, n int) (page []catalogue.Entry) {
	for range n {
		server := name("example/%c%c", 'a'+rune(random.IntN(3)), 'a'+rune(random.IntN(3)))
		version := []string{"1.0.0", "1.1.0", "1.10.0", "1.0.0-rc.1"}[random.IntN(4)]
		e := entry(server, version, random.IntN(10), []string{"active", "deprecated", catalogue.StatusDeleted}[random.IntN(3)])
		e.Latest = random.IntN(2) == 0
		if was, ok := have[[2]string{server, version}]; ok && random.IntN(3) == 0 {
			e = was // only Meta and Flags change
			e.Meta, e.Flags = []byte(name("%d", random.Int())), []string{"again"}
		}
		have = have.with(e)
		for i := range page {
			if page[i].Name == server && page[i].Version == version {
				page = append(page[:i], page[i+1:]...)
				break
			}
		}
		page = append(page, e)
	}
	return page
}

// testQueries: after random commits, each query returns the right rows, each once and in order,
// and Versions returns all rows of a server.
func testQueries(t *testing.T, f *fixture) {
	const seed = 7
	random := rand.New(rand.NewPCG(seed, seed))
	w := writer(t, f.Catalogue, "ann")
	var want rows
	for step := range 8 {
		page := shuffled(random, want, 1+random.IntN(12))
		commit(t, w, page...)
		want = want.with(page...)
		f.wantCatalogue(t, name("step %d", step), want)
	}
	for _, a := range "abc" {
		server := name("example/%cb", a)
		one := catalogue.Query{Deleted: true, Match: func(name string) bool { return name == server }}
		versions, err := f.Versions(t.Context(), server, nil)
		wantError(t, "Versions", err, nil)
		wantEntries(t, server, brief(versions), brief(want.query(one))...)
		one.Latest = true
		latest, err := f.Latest(t.Context(), server)
		if chosen := want.query(one); len(chosen) == 0 {
			wantError(t, "Latest", err, storage.ErrNotFound)
		} else {
			wantEntries(t, "the latest", brief([]catalogue.Entry{latest}), brief(chosen[:1])...)
		}
	}
	// Names with a common prefix are kept apart.
	more := []catalogue.Entry{entry("x", "1", 1, "latest"), entry("x.y", "1", 1, "latest"), entry("x y", "1", 1, "latest"), entry("x", "1.0", 1), entry("x", "1 0", 1)}
	commit(t, w, more...)
	versions, err := f.Versions(t.Context(), "x", nil)
	wantError(t, "Versions", err, nil)
	wantEntries(t, "the versions of x", brief(versions), brief(rows{}.with(more[0], more[3], more[4]).query(everything))...)
	f.wantCatalogue(t, "with names that begin alike", want.with(more...))
}

// testSince: Since selects strictly later rows, to the nanosecond, with deleted ones if Deleted
// is set.
func testSince(t *testing.T, f *fixture) {
	w := writer(t, f.Catalogue, "ann")
	at := func(name string, d time.Duration, marks ...string) catalogue.Entry {
		e := entry(name, "1.0.0", 0, marks...)
		e.Updated = epoch.Add(d)
		return e
	}
	want := rows{}.with(
		at("a", 0), at("b", time.Nanosecond), at("c", 0), at("d", 999*time.Millisecond), at("e", -time.Nanosecond, catalogue.StatusDeleted),
		at("f", time.Second, catalogue.StatusDeleted), at("g", 24*365*time.Hour), at("h", -200*24*365*time.Hour), at("i", 200*24*365*time.Hour),
	)
	zero := entry("zero", "1.0.0", 0)
	zero.Updated = time.Time{}
	want = want.with(zero)
	commit(t, w, want.query(everything)...)
	for _, since := range []time.Duration{-250 * 24 * 365 * time.Hour, -1, 0, 1, time.Second - 1, time.Second, time.Second + 1, 24 * 365 * time.Hour, 250 * 24 * 365 * time.Hour} {
		for _, deleted := range []bool{false, true} {
			for _, limit := range []int{1, 100} {
				q := catalogue.Query{Since: epoch.Add(since), Deleted: deleted}
				wantRows(t, name("since %v, deleted %t", since, deleted), f.Catalogue, q, limit, want)
			}
		}
	}
}

// testUnchanged: rows equal to the stored ones are not written, and nothing changes for readers.
func testUnchanged(t *testing.T, f *fixture) {
	w := writer(t, f.Catalogue, "ann")
	have := []catalogue.Entry{entry("a", "1.0.0", 1, "latest"), entry("b", "1.0.0", 2, catalogue.StatusDeleted)}
	commit(t, w, have...)
	before := w.State()
	same := have[0]
	same.Updated = same.Updated.In(time.FixedZone("", 7200))
	f.wantRowWrites(t, "committing what is there", 0, func() { commit(t, w, same, have[1]) })
	if st := w.State(); st.Committed != before.Committed || !st.Changed.Equal(before.Changed) {
		t.Errorf("what changed nothing was committed as page %d after %d", st.Committed, before.Committed)
	}
	flagged := have[0]
	flagged.Flags = []string{"mismatch"}
	removed := len(f.backend.Removals())
	f.wantRowWrites(t, "committing one change of two", 1, func() { commit(t, w, flagged, have[1]) })
	if n := len(f.backend.Removals()) - removed; n > 0 {
		t.Errorf("a row that keeps its places lost %d entries", n)
	}
	f.wantCatalogue(t, "after that", rows{}.with(flagged, have[1]))
	row := flagged
	for what, change := range map[string]func(){
		"record": func() { row.Server = []byte("{}") }, "meta": func() { row.Meta = []byte("{}") },
		"status": func() { row.Status = "deprecated" }, "message": func() { row.StatusMessage = "moved" }, "origin": func() { row.Origin = "own" },
		"published": func() { row.Published = row.Published.Add(1) }, "updated": func() { row.Updated = row.Updated.Add(1) },
		"status changed": func() { row.StatusChanged = epoch }, "latest": func() { row.Latest = false }, "flags": func() { row.Flags = nil },
	} {
		change()
		f.wantRowWrites(t, what, 1, func() { commit(t, w, row, have[1]) })
	}
	f.wantCatalogue(t, "after each change", rows{}.with(row, have[1]))
}

// wantRowWrites checks the number of rows written.
func (f *fixture) wantRowWrites(t *testing.T, what string, want int, do func()) {
	t.Helper()
	before := len(f.backend.Writes())
	do()
	n := 0
	for _, put := range f.backend.Writes()[before:] {
		if strings.HasPrefix(put.Key, "gatehouse:catalogue-row:") {
			n++
		}
	}
	if n != want {
		t.Errorf("%s: %d rows were written; want %d", what, n, want)
	}
}

// testProgress: the progress is committed with the rows, and nil keeps it.
func testProgress(t *testing.T, f *fixture) {
	w := writer(t, f.Catalogue, "ann")
	want := func(c *catalogue.Catalogue, progress string) {
		t.Helper()
		st, err := c.State(t.Context())
		if err != nil || string(st.Progress) != progress {
			t.Errorf("the progress is %q, %v; want %q", st.Progress, err, progress)
		}
		if got := string(w.State().Progress); got != progress {
			t.Errorf("the writer's progress is %q; want %q", got, progress)
		}
	}
	want(f.Catalogue, "")
	for i, progress := range []string{`{"cursor":"a"}`, `[1,2]`, `"done"`} {
		given := []byte(progress)
		wantError(t, "Commit", w.Commit(t.Context(), []catalogue.Entry{entry("a", name("%d", i), i)}, given), nil)
		given[0] = '!'
		want(f.Catalogue, progress)
	}
	wantError(t, "Commit without progress", w.Commit(t.Context(), []catalogue.Entry{entry("b", "1", 1)}, nil), nil)
	want(f.Catalogue, `"done"`)
	wantError(t, "Commit of progress alone", w.Commit(t.Context(), nil, []byte("3")), nil)
	want(f.Catalogue, "3")
	wantError(t, "Close", w.Close(t.Context()), nil)
	w = writer(t, f.Catalogue, "bob")
	want(f.Catalogue, "3")
}

// testCursorKey: a key is drawn once, and sealed by a store that has master keys.
func testCursorKey(t *testing.T, f *fixture) {
	bare := f.with(t)
	w := writer(t, bare.Catalogue, "ann")
	key := w.State().CursorKey
	st, err := f.State(t.Context())
	if err != nil || len(key) != 32 || !bytes.Equal(key, st.CursorKey) {
		t.Fatalf("the key has %d bytes, and reads as %d, %v", len(key), len(st.CursorKey), err)
	}
	text, err := json.Marshal(st)
	wantError(t, "Marshal", err, nil)
	printed := fmt.Sprintf("%s %v %+v %#v %s %q %x", text, st, st, st, key, key, key)
	for _, shown := range []string{string(key), fmt.Sprint([]byte(key)), fmt.Sprintf("%x", []byte(key)), base64.StdEncoding.EncodeToString(key), fmt.Sprintf("%#v", []byte(key))} {
		if strings.Contains(printed, shown) {
			t.Errorf("a state that is printed shows its key as %s", shown)
		}
	}
	commit(t, w, entry("a", "1", 1))
	wantError(t, "Close", w.Close(t.Context()), nil)
	stored := func() []byte { return f.backend.Item(t, "gatehouse:catalogue:state").Data }
	if !bytes.Contains(stored(), []byte(`"cursor_key"`)) {
		t.Error("a store without master keys has no key in the clear")
	}
	w = writer(t, f.Catalogue, "bob")
	if !bytes.Equal(key, w.State().CursorKey) {
		t.Error("a second writer has another key")
	}
	if bytes.Contains(stored(), []byte(`"cursor_key"`)) || !bytes.Contains(stored(), []byte(`"sealed_cursor_key"`)) {
		t.Error("a store with master keys leaves the key in the clear")
	}
	_, err = bare.State(t.Context())
	wantError(t, "State without the master key", err, storage.ErrNoMasterKey)
	_, err = f.with(t, masterKey()).State(t.Context())
	wantError(t, "State with another master key", err, storage.ErrRecord)
	wantRows(t, "the rows without the master key", bare.Catalogue, everything, 10, rows{}.with(entry("a", "1", 1)))
}

// testReseal: the cursor key is sealed again while a writer is open, and the writer continues.
func testReseal(t *testing.T, f *fixture) {
	own := f.process()
	w := writer(t, f.on(t, own), "ann")
	commit(t, w, entry("a", "1", 1))
	key, old := w.State().CursorKey, f.keys[0]
	fresh := masterKey()
	both := f.with(t, fresh, old)
	for _, sealed := range []int{2, 0} { // records sealed: the state of the catalogue and the key set; then none
		done, err := both.Reseal(t.Context(), nil)
		if want := (storage.Resealed{Looked: 2, Sealed: sealed}); err != nil || done != want {
			t.Errorf("Reseal: %+v, %v; want %+v", done, err, want)
		}
	}
	own.beforeChange(0, func() { _, _ = f.with(t, old, fresh).Reseal(t.Context(), nil) })
	err := w.Commit(watched(t.Context()), []catalogue.Entry{entry("b", "1", 1, "latest")}, nil)
	wantError(t, "Commit", err, nil)
	_, err = both.Reseal(t.Context(), nil)
	wantError(t, "Reseal", err, nil)
	commit(t, w, entry("c", "1", 1))
	st, err := f.with(t, fresh).State(t.Context())
	if err != nil || !bytes.Equal(st.CursorKey, key) {
		t.Errorf("with the new master key alone: %v", err)
	}
	wantRows(t, "the rows", f.Catalogue, everything, 10, rows{}.with(entry("a", "1", 1), entry("b", "1", 1, "latest"), entry("c", "1", 1)))
	if st := w.State(); st.Committed == 0 || st.CursorKey != nil {
		t.Errorf("a writer that cannot open the key says %+v", st)
	}
}

// testUnreadable: a damaged row is left out and counted, and committing it again repairs it.
func testUnreadable(t *testing.T, f *fixture) {
	w := writer(t, f.Catalogue, "ann")
	a, b, c := entry("a", "1.0.0", 1, "latest"), entry("b", "1.0.0", 2, "latest"), entry("c", "1.0.0", 3)
	commit(t, w, a, b, c)
	key := "gatehouse:catalogue-row:b\x001.0.0"
	whole := f.backend.Item(t, key).Data
	for what, data := range map[string][]byte{
		"a newer program's": append([]byte{2}, whole[1:]...),
		"a short one":       whole[:len(whole)-1],
		"a shorter one":     whole[:12],
		"nothing":           {},
		"a broken one":      append(append([]byte{}, whole[:13]...), bytes.Repeat([]byte("x"), 200)...),
	} {
		f.backend.Overwrite(t, key, data)
		page, err := f.Page(t.Context(), everything, "", 10)
		if err != nil || page.Unreadable != 1 {
			t.Errorf("%s: %d rows cannot be read, %v; want 1", what, page.Unreadable, err)
		}
		wantEntries(t, what, brief(page.Entries), brief([]catalogue.Entry{a, c})...)
		_, err = f.Entry(t.Context(), "b", "1.0.0")
		wantError(t, what, err, storage.ErrRecord)
		_, err = f.Versions(t.Context(), "b", nil)
		wantError(t, what, err, storage.ErrRecord)
		_, err = f.Latest(t.Context(), "b")
		wantError(t, what, err, storage.ErrRecord)
		commit(t, w, b)
		wantRows(t, "after "+what, f.Catalogue, everything, 10, rows{}.with(a, b, c))
	}
	f.backend.Overwrite(t, "gatehouse:catalogue:state", []byte{2})
	_, err := f.State(t.Context())
	wantError(t, "State of a newer program", err, storage.ErrRecord)
	_, err = f.Page(t.Context(), everything, "", 10)
	wantError(t, "Page with the state of a newer program", err, storage.ErrRecord)
	wantError(t, "Commit over the state of a newer program", w.Commit(t.Context(), []catalogue.Entry{entry("d", "1", 1)}, nil), storage.ErrRecord)
	_, err = f.OpenWriter(t.Context(), "bob")
	wantError(t, "OpenWriter over the state of a newer program", err, storage.ErrRecord)
}

// testDown: while the backend is down, all reads return ErrUnavailable, not ErrNotFound.
func testDown(t *testing.T, f *fixture) {
	w := writer(t, f.Catalogue, "ann")
	have := entry("a", "1.0.0", 1, "latest")
	commit(t, w, have)
	ctx := t.Context()
	f.faults.SetDown(true)
	for what, call := range map[string]func(context.Context) error{
		"State":      func(ctx context.Context) error { _, err := f.State(ctx); return err },
		"Entry":      func(ctx context.Context) error { _, err := f.Entry(ctx, "a", "1.0.0"); return err },
		"Versions":   func(ctx context.Context) error { _, err := f.Versions(ctx, "a", nil); return err },
		"Latest":     func(ctx context.Context) error { _, err := f.Latest(ctx, "a"); return err },
		"Page":       func(ctx context.Context) error { _, err := f.Page(ctx, everything, "", 1); return err },
		"OpenWriter": func(ctx context.Context) error { _, err := f.OpenWriter(ctx, "bob"); return err },
		"Commit": func(ctx context.Context) error {
			return w.Commit(ctx, []catalogue.Entry{entry("b", "1", 1)}, nil)
		},
		"Commit of nothing": func(ctx context.Context) error { return w.Commit(ctx, nil, []byte("1")) },
	} {
		err := call(ctx)
		wantUnavailable(t, what, err)
		if !errors.Is(err, storagetest.ErrDown) {
			t.Errorf("%s returned error %v; it hides the cause", what, err)
		}
	}
	f.faults.SetDown(false)
	f.wantCatalogue(t, "afterwards", rows{}.with(have))
	commit(t, w, entry("b", "1", 1))
	f.wantCatalogue(t, "after the next page", rows{}.with(have, entry("b", "1", 1)))
}
