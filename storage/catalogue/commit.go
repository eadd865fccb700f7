package catalogue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"gatehouse.example/storage"
)

// MaxCommit is how many entries are committed at once at most.
const MaxCommit = 1000

// Commit writes rows and what the writer has come to, which is JSON. Readers see all of it
// or nothing. Rows that say what is there already are left alone, and if all do, the number
// of the last page stays. A nil progress leaves the one before.
//
// An error other than [ErrEntry] does not say whether the page was committed: [ErrLeased]
// and [storage.ErrConflict] mean that this writer is over, and another one knows from its state how
// far it came. After any other error the same may be committed again.
// While room is short nothing new is committed, which is [storage.ErrFull]: a mirror must not use
// up what signed-in people need.
func (w *Writer) Commit(ctx context.Context, entries []Entry, progress json.RawMessage) error {
	if err := checkEntries(entries); err != nil {
		return err
	}
	if progress != nil && !json.Valid(progress) {
		return fmt.Errorf("%w: the progress is not JSON", ErrEntry)
	}
	w.writing.Lock()
	defer w.writing.Unlock()
	if err := w.settle(ctx); err != nil {
		return err
	}
	rows, err := w.plan(ctx, entries)
	if err != nil {
		return err
	}
	if len(rows) > 0 && w.c.store.Room() != storage.RoomEnough {
		return fmt.Errorf("storage/catalogue: commit: %w: %w", storage.ErrUnavailable, storage.ErrFull)
	}
	w.unsure = true
	if len(rows) == 0 {
		err = w.swap(ctx, func(st *stateRecord) error { return st.advance(progress) })
	} else {
		err = w.commit(ctx, rows, progress)
	}
	w.unsure = err != nil
	if err == nil {
		_ = w.sweep(ctx) // what is left is removed before the next page
	}
	return err
}

// checkEntries refuses what cannot be committed together.
func checkEntries(entries []Entry) error {
	if len(entries) > MaxCommit {
		return fmt.Errorf("%w: %d entries at once, at most %d", ErrEntry, len(entries), MaxCommit)
	}
	seen := make(map[string]bool, len(entries))
	for _, e := range entries {
		if err := e.check(); err != nil {
			return err
		}
		id := rowID(e.Name, e.Version)
		if seen[id] {
			return fmt.Errorf("%w: %q %q comes twice", ErrEntry, e.Name, e.Version)
		}
		seen[id] = true
	}
	return nil
}

// advance replaces the progress, unless there is none.
func (st *stateRecord) advance(progress json.RawMessage) error {
	if progress != nil {
		st.Progress = slices.Clone(progress)
	}
	return nil
}

// plannedRow is a row that a page is going to write.
type plannedRow struct {
	changedRow
	row    storedRow
	unless storage.Version // what is there
}

// plan compares entries with what is there and returns the rows that change, numbered as
// the next page.
func (w *Writer) plan(ctx context.Context, entries []Entry) ([]plannedRow, error) {
	ids := make([]string, len(entries))
	for i, e := range entries {
		ids[i] = rowID(e.Name, e.Version)
	}
	items, err := w.c.rows.GetMany(ctx, ids)
	if err != nil {
		return nil, err
	}
	st := w.current()
	var rows []plannedRow
	for i, e := range entries {
		there, err := w.c.decodeRow(items[i])
		if err != nil && !errors.Is(err, storage.ErrRecord) { // what cannot be read is replaced
			return nil, err
		}
		before := there.at(st)
		if before != nil && before.entry(e.Name, e.Version).same(e) {
			continue
		}
		row := plannedRow{unless: items[i].Version}
		row.Name, row.Version = e.Name, e.Version
		row.row = storedRow{versionOf(e, st.Used+1), before}
		row.row.current.Size = row.row.size()
		row.Is = row.row.current.listing()
		if before != nil {
			row.Was = before.listing()
			if row.Was.alike(row.Is) {
				row.row.current.Stamp, row.Was, row.Is = before.Stamp, nil, nil
			}
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// commit announces a page, writes its rows and commits it.
func (w *Writer) commit(ctx context.Context, rows []plannedRow, progress json.RawMessage) error {
	page := &pageRecord{Number: rows[0].row.current.Seq}
	for _, r := range rows {
		page.Rows = append(page.Rows, r.changedRow)
		page.Counts.add(r.Was, -1)
		page.Counts.add(r.Is, 1)
	}
	err := w.swap(ctx, func(st *stateRecord) error {
		if st.pages.Pending != nil || st.Used+1 != page.Number {
			return fmt.Errorf("storage/catalogue: %w: another page was begun", storage.ErrUnavailable)
		}
		st.pages.Pending, st.Used = page, page.Number
		return nil
	})
	for i := 0; i < len(rows) && err == nil; i++ {
		err = w.write(ctx, rows[i])
	}
	if err != nil {
		return err
	}
	return w.swap(ctx, func(st *stateRecord) error { return st.commit(page, progress, w.c.store.Now()) })
}

// commit makes the pending page the last one that is committed.
func (st *stateRecord) commit(page *pageRecord, progress json.RawMessage, now time.Time) error {
	if st.pages.Pending == nil || st.pages.Pending.Number != page.Number {
		return fmt.Errorf("storage/catalogue: %w: the page is pending no more", storage.ErrUnavailable)
	}
	st.pages.Pending, st.pages.Done = nil, page.stale()
	st.Committed, st.Changed = page.Number, plainTime(now)
	st.Servers += page.Counts.Servers
	st.Live += page.Counts.Live
	st.Deleted += page.Counts.Deleted
	return st.advance(progress)
}

// stale is what is left of a page when it is committed: the rows that have left their
// places in lists, nil if there are none.
func (p *pageRecord) stale() *pageRecord {
	left := &pageRecord{Number: p.Number}
	for _, r := range p.Rows {
		if r.Was != nil {
			left.Rows = append(left.Rows, changedRow{Name: r.Name, Version: r.Version, Was: r.Was})
		}
	}
	if len(left.Rows) == 0 {
		return nil
	}
	return left
}

// write writes a row, unless it is not what it was when the page was announced.
func (w *Writer) write(ctx context.Context, r plannedRow) error {
	if err := w.mayWrite(); err != nil {
		return err
	}
	record := r.row.record(rowID(r.Name, r.Version))
	record.Listed = r.Is.entries(r.Name, r.Version)
	_, err := w.c.rows.Put(ctx, record, storage.Unchanged(r.unless))
	if errors.Is(err, storage.ErrConflict) {
		return w.disturbed(ctx)
	}
	return err
}

// disturbed finds out why a row was not what it was: most likely somebody has taken over.
func (w *Writer) disturbed(ctx context.Context) error {
	if err := w.swap(ctx, func(*stateRecord) error { return nil }); err != nil {
		return err
	}
	return fmt.Errorf("storage/catalogue: %w: a row has changed meanwhile", storage.ErrUnavailable)
}

// settle finishes what this writer or another one left unfinished: a page that is not
// committed is undone, and entries that a committed one has made stale are removed.
func (w *Writer) settle(ctx context.Context) error {
	if w.unsure {
		// A write of the state may still be under way. When this one has happened, that
		// one cannot.
		if err := w.swap(ctx, func(*stateRecord) error { return nil }); err != nil {
			return err
		}
		w.unsure = false
	}
	if page := w.current().pages.Pending; page != nil {
		if err := w.undo(ctx, page); err != nil {
			return err
		}
	}
	return w.sweep(ctx)
}

// sweep removes the entries that the last page has made stale.
func (w *Writer) sweep(ctx context.Context) error {
	done := w.current().pages.Done
	if done == nil || done.Number == w.swept {
		return nil
	}
	for _, r := range done.Rows {
		if err := w.c.rows.Unlist(ctx, r.Was.entries(r.Name, r.Version)); err != nil {
			return err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.swept = done.Number
	return nil
}
