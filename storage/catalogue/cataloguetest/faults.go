package cataloguetest

import (
	"context"
	"strconv"
	"testing"
	"time"

	"gatehouse.example/storage"
	"gatehouse.example/storage/catalogue"
	"gatehouse.example/storage/storagetest"
)

// testDies: a writer that ends after any of its changes leaves a whole page or none, and so does
// the next writer while it cleans up. Readers check after every change.
func testDies(t *testing.T, f *fixture) {
	var want rows
	for k := range f.places(t) {
		own := f.process()
		w := writer(t, f.on(t, own), "ann")
		want = f.prepared(t, w, want, k)
		page := pageOf(k)
		own.between = func() { f.glance(t, name("while page %d is written", k), want, want.with(page...)) }
		alive := true
		own.spoil(k, func() error { alive = false; own.kill(); return storagetest.ErrDown })
		err := w.Commit(watched(t.Context()), page, []byte(name("%d", k)))
		next := want.with(page...)
		which := f.wantSeen(t, name("after the death before change %d", k), want, next)
		if which == 1 {
			want = next
			wantError(t, "Commit of a page that is there", err, nil)
		} else {
			wantUnavailable(t, "Commit of a page that is not there", err)
		}
		own.end(t, w)
		f.clock.advance(leaseTime)
		heir := f.process()
		heir.between = func() { f.glance(t, name("while page %d is taken back", k), want) }
		second, err := f.on(t, heir).OpenWriter(watched(t.Context()), "bob")
		if err != nil {
			t.Fatalf("OpenWriter after the death before change %d: %v", k, err)
		}
		if got := string(second.State().Progress) == name("%d", k); got != (which == 1) {
			t.Errorf("after the death before change %d the progress is %s", k, second.State().Progress)
		}
		f.wantLists(t, name("taken over after the death before change %d", k), want)
		wantError(t, "Close", second.Close(t.Context()), nil)
		if alive {
			f.wantCatalogue(t, "in the end", want)
			return
		}
	}
}

// end ends a writer as the end of its process would: it does not release the lease.
func (p *process) end(t *testing.T, w *catalogue.Writer) {
	t.Helper()
	p.kill()
	if err := w.Close(t.Context()); err == nil {
		t.Error("a dead process gave its lease back")
	}
}

// testDiesTwice: a writer that undoes a page may also end after any change, and the writer after
// it can complete the work.
func testDiesTwice(t *testing.T, f *fixture) {
	const late = 17 // most of the page is written then
	var want rows
	for k := range f.places(t) {
		own, heir := f.process(), f.process()
		w := writer(t, f.on(t, own), "ann")
		want = f.prepared(t, w, want, k)
		own.spoil(late, func() error { own.kill(); return storagetest.ErrDown })
		wantUnavailable(t, "Commit", w.Commit(watched(t.Context()), pageOf(k), nil))
		own.end(t, w)
		f.clock.advance(leaseTime)

		heir.between = func() { f.glance(t, "while it is taken back", want) }
		alive := true
		heir.spoil(k, func() error { alive = false; heir.kill(); return storagetest.ErrDown })
		second, err := f.on(t, heir).OpenWriter(watched(t.Context()), "bob")
		f.wantSeen(t, name("after the second death before change %d", k), want)
		if alive {
			wantError(t, "OpenWriter", err, nil)
			wantError(t, "Close", second.Close(t.Context()), nil)
			f.wantCatalogue(t, "in the end", want)
			return
		}
		wantUnavailable(t, "OpenWriter", err)
		f.clock.advance(leaseTime)
		third := writer(t, f.Catalogue, "cat")
		f.wantLists(t, name("after the second death before change %d", k), want)
		commit(t, third, pageOf(k)...)
		want = want.with(pageOf(k)...)
		f.wantSeen(t, "when it is committed at last", want)
		wantError(t, "Close", third.Close(t.Context()), nil)
	}
}

// testLateWrite: a write of an ended writer that arrives after another one has taken over and
// committed has no effect.
func testLateWrite(t *testing.T, f *fixture) {
	var want rows
	for k := range f.places(t) {
		own := f.process()
		w := writer(t, f.on(t, own), "ann")
		want = f.prepared(t, w, want, k)
		page := pageOf(k)
		ctx, giveUp := context.WithCancel(watched(t.Context()))
		own.spoil(k, func() error { own.kill(); giveUp(); return errLate })
		err := w.Commit(ctx, page, nil)
		giveUp()
		if own.late == nil {
			wantError(t, "Commit of a page of which nothing was late", err, nil)
			f.comb(t, w, k)
			f.wantCatalogue(t, "in the end", want.with(page...).with(combed))
			return
		}
		which := f.wantSeen(t, name("while change %d is late", k), want, want.with(page...))
		want = []rows{want, want.with(page...)}[which]
		own.end(t, w)
		f.clock.advance(leaseTime)
		next := writer(t, f.Catalogue, "bob")
		own.late()
		f.glance(t, name("when change %d has arrived after the takeover", k), want)
		other := []catalogue.Entry{changed(page[1]), changed(page[3]), entry("other", name("%d", k), 1)}
		commit(t, next, other...)
		want = want.with(other...)
		own.late()
		f.glance(t, name("when change %d has arrived after another page", k), want)
		commit(t, next, page...)
		want = want.with(page...)
		own.late()
		commit(t, next, entry("more", name("%d", k), 1, "latest"))
		want = want.with(entry("more", name("%d", k), 1, "latest"))
		own.late()
		f.wantSeen(t, name("when change %d has arrived after that page again", k), want)
		wantError(t, "Close", next.Close(t.Context()), nil)
	}
}

// testLostReply: a change whose reply is lost happens once, for every change of a commit.
func testLostReply(t *testing.T, f *fixture) {
	var want rows
	w := writer(t, f.Catalogue, "ann")
	for k := range f.places(t) {
		wantError(t, "Close", w.Close(t.Context()), nil)
		own := f.process()
		w = writer(t, f.on(t, own), "ann")
		want = f.prepared(t, w, want, k)
		before := w.State().Committed
		lost := false
		own.spoil(k, func() error { lost = true; return errUnheard })
		err := w.Commit(watched(t.Context()), pageOf(k), nil)
		if err != nil { // adding an entry is not repeated, the page is
			wantUnavailable(t, name("Commit with reply %d lost", k), err)
			f.wantSeen(t, name("with reply %d lost", k), want)
			commit(t, w, pageOf(k)...)
		}
		want = want.with(pageOf(k)...)
		f.wantSeen(t, name("with reply %d lost", k), want)
		if st := w.State(); st.Committed > before+2 {
			t.Errorf("with reply %d lost the page was committed as %d, %d before", k, st.Committed, before)
		}
		commit(t, w)
		f.wantLists(t, name("with reply %d lost", k), want)
		if !lost {
			f.wantCatalogue(t, "in the end", want)
			return
		}
	}
}

// testLostForGood: a writer that never gets the outcome of a change continues by itself: the page
// is committed once, whether the change happened, did not happen, or happens later.
func testLostForGood(t *testing.T, f *fixture) {
	for what, fate := range map[string]error{"made": errUnheard, "late": errLate} {
		newFixture(t, f.backend.Backend).lostForGood(t, what, fate)
	}
}

func (f *fixture) lostForGood(t *testing.T, what string, fate error) {
	t.Helper()
	var want rows
	spoilt := true
	for k := range f.places(t) {
		if !spoilt {
			return
		}
		spoilt = false
		own := f.process()
		w := writer(t, f.on(t, own), "ann")
		want = f.prepared(t, w, want, k)
		ctx, giveUp := context.WithCancel(watched(t.Context()))
		own.spoil(k, func() error { spoilt = true; giveUp(); return fate })
		err := w.Commit(ctx, pageOf(k), nil)
		giveUp()
		which := f.wantSeen(t, name("%s: while change %d is not known", what, k), want, want.with(pageOf(k)...))
		if err == nil && which == 0 {
			t.Errorf("%s: Commit returned no error, and readers do not see it", what)
		}
		commit(t, w, pageOf(k)...)
		want = want.with(pageOf(k)...)
		f.glance(t, name("%s: when change %d was given up", what, k), want)
		arrive := func() {
			if own.late != nil {
				own.late()
			}
			f.glance(t, name("%s: when change %d has arrived", what, k), want)
		}
		arrive()
		commit(t, w, changed(pageOf(k)[0]), entry("other", name("%d", k), k))
		want = want.with(changed(pageOf(k)[0]), entry("other", name("%d", k), k))
		arrive()
		f.wantSeen(t, name("%s: at the end of page %d", what, k), want)
		wantError(t, "Close", w.Close(t.Context()), nil)
	}
}

// testForgotten: if the store loses commits, the writer gets an error and writes nothing more. The
// next writer continues from the stored state.
func testForgotten(t *testing.T, f *fixture) {
	const state = "gatehouse:catalogue:state"
	w := writer(t, f.Catalogue, "ann")
	commit(t, w, entry("a", "1", 1))
	older := f.backend.Item(t, state)
	wantError(t, "Commit", w.Commit(t.Context(), []catalogue.Entry{entry("b", "1", 1)}, []byte(`"b"`)), nil)
	f.backend.Restore(t, state, older)
	for range 2 {
		err := w.Commit(t.Context(), []catalogue.Entry{entry("c", "1", 1)}, []byte(`"c"`))
		wantError(t, "Commit after the store went back", err, storage.ErrConflict)
	}
	wantError(t, "Close", w.Close(t.Context()), nil)
	f.clock.advance(leaseTime)
	w = writer(t, f.Catalogue, "bob")
	if st := w.State(); st.Progress != nil {
		t.Errorf("the next writer goes on from %s", st.Progress)
	}
	commit(t, w, entry("b", "1", 1), entry("c", "1", 1))
	f.wantSeen(t, "after what was forgotten was committed again", rows{}.with(entry("a", "1", 1), entry("b", "1", 1), entry("c", "1", 1)))

	// Without its state a catalogue is empty, and a new one may begin.
	f.backend.Remove(t, state)
	f.wantSeen(t, "without the state", nil)
	wantError(t, "Commit without the state", w.Commit(t.Context(), nil, []byte("1")), storage.ErrConflict)
	f.clock.advance(time.Second)
	w = writer(t, f.Catalogue, "cat")
	f.wantSeen(t, "when another one has begun", nil)
	commit(t, w, entry("b", "1", 1, "latest"))
	commit(t, w, entry("d", "1", 1))
	f.wantSeen(t, "after the first pages", rows{}.with(entry("b", "1", 1, "latest"), entry("d", "1", 1)))
}

// testStale: readers skip entries that belong to no page, and remove them unless they could belong
// to a page that is being written.
func testStale(t *testing.T, f *fixture) {
	const live = "gatehouse:catalogue-live:name"
	w := writer(t, f.Catalogue, "ann")
	have := []catalogue.Entry{entry("a", "1", 1), entry("b", "1", 1), entry("c", "1", 1)}
	commit(t, w, have...)
	stamp := strconv.FormatUint(w.State().Committed, 36)
	commit(t, w, entry("d", "1", 1))
	want := rows{}.with(append(have, entry("d", "1", 1))...)
	stale := []string{"b\x001\x001", "b\x001\x00" + "2L", "gone\x001\x001", "z\x00z\x00zz"}
	fill(t, f.backend, live, stale...)
	pending := "b\x001\x00zzzzzzzzzzz" // of a later page
	fill(t, f.backend, live, pending, "a stranger", "a\x001\x00-", "a\x00b\x00c\x00d")
	for range 2 {
		for _, limit := range []int{1, 2, 100} {
			wantRows(t, "with stale entries", f.Catalogue, catalogue.Query{}, limit, want)
		}
	}
	for _, entry := range page(t, f.backend, live, "", 100) {
		for _, s := range stale {
			if entry == s {
				t.Errorf("%q is still there", entry)
			}
		}
	}
	if n, err := f.backend.IndexLen(t.Context(), live); err != nil || n != 4+4 {
		t.Errorf("the list has %d entries, %v; want 4 and those that may belong to a page", n, err)
	}
	// The entries of the last page are left to its writer.
	commit(t, w, entry("a", "1", 2))
	fill(t, f.backend, live, "a\x001\x00"+stamp)
	wantRows(t, "with an entry of the last page", f.Catalogue, catalogue.Query{}, 100, want.with(entry("a", "1", 2)))
	if n, err := f.backend.IndexLen(t.Context(), live); err != nil || n != 4+4+1 {
		t.Errorf("the list has %d entries, %v; want the last page's too", n, err)
	}
}
