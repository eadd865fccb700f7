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

// MaxCommit is the maximum number of entries of one commit.
const MaxCommit = 1000

// Commit writes rows and the progress of the writer, which is JSON. Readers see all of it or
// nothing. Rows equal to the stored ones are not written; if all are equal, State.Committed
// stays. A nil progress keeps the stored one.
//
// With [ErrEntry], nothing was written. With any other error, the commit may have happened.
// [ErrLeased] and [storage.ErrConflict] mean that this writer cannot write any more; the state
// of the next writer has the progress. After other errors the same commit may be repeated.
//
// While the store is short of memory, Commit refuses changes of rows with [storage.ErrFull],
// because a mirror must not use the memory that sign-ins need.
func (w *Writer) Commit(ctx context.Context, entries []Entry, progress json.RawMessage) error {
	if err := checkEntries(entries); err != nil {
		return err
	}
	if progress != nil && !json.Valid(progress) {
		return fmt.Errorf("%w: the progress is not JSON", ErrEntry)
	}
	w.writing.Lock()
	defer w.writing.Unlock()
	if err := w.cleanUp(ctx); err != nil {
		return err
	}
	rows, err := w.plan(ctx, entries)
	if err != nil {
		return err
	}
	if len(rows) > 0 && w.c.store.Room() != storage.RoomEnough {
		return fmt.Errorf("storage/catalogue: commit: %w: %w", storage.ErrUnavailable, storage.ErrFull)
	}
	if len(rows) == 0 {
		err = w.swap(ctx, func(st *stateRecord) error { return st.setProgress(progress) })
	} else {
		err = w.commit(ctx, rows, progress)
	}
	w.outcomeUnknown = err != nil
	if err == nil {
		_ = w.sweep(ctx) // on an error, the next commit sweeps
	}
	return err
}

// checkEntries returns an error if the entries cannot be committed together.
func checkEntries(entries []Entry) error {
	if len(entries) > MaxCommit {
		return fmt.Errorf("%w: %d entries in one commit, the limit is %d", ErrEntry, len(entries), MaxCommit)
	}
	seen := make(map[string]bool, len(entries))
	for _, e := range entries {
		if err := e.check(); err != nil {
			return err
		}
		id := rowID(e.Name, e.Version)
		if seen[id] {
			return fmt.Errorf("%w: %q %q occurs twice", ErrEntry, e.Name, e.Version)
		}
		seen[id] = true
	}
	return nil
}

// setProgress replaces the progress, unless it is nil.
func (st *stateRecord) setProgress(progress json.RawMessage) error {
	if progress != nil {
		st.Progress = slices.Clone(progress)
	}
	return nil
}

// plannedRow is a row that a page will write.
type plannedRow struct {
	changedRow
	row      storedRow
	expected storage.Version // the stored version, which the write replaces
}

// plan compares entries with the stored rows and returns the rows that change, with the number
// of the next page.
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
		stored, err := w.c.decodeRow(items[i])
		if err != nil && !errors.Is(err, storage.ErrRecord) { // a damaged row is replaced
			return nil, err
		}
		before := stored.visibleIn(st)
		if before != nil && before.entry(e.Name, e.Version).same(e) {
			continue
		}
		row := plannedRow{expected: items[i].Version}
		row.Name, row.Version = e.Name, e.Version
		row.row = storedRow{versionOf(e, st.Used+1), before}
		row.row.current.Size = row.row.size()
		row.After = row.row.current.listing()
		if before != nil {
			row.Before = before.listing()
			if row.Before.samePlaces(row.After) {
				row.row.current.Stamp, row.Before, row.After = before.Stamp, nil, nil
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
		page.Counts.add(r.Before, -1)
		page.Counts.add(r.After, 1)
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

// commit makes the pending page the last committed one.
func (st *stateRecord) commit(page *pageRecord, progress json.RawMessage, now time.Time) error {
	if st.pages.Pending == nil || st.pages.Pending.Number != page.Number {
		return fmt.Errorf("storage/catalogue: %w: the page is not pending any more", storage.ErrUnavailable)
	}
	st.pages.Pending, st.pages.Done = nil, page.stale()
	st.Committed, st.Changed = page.Number, storedTime(now)
	st.Servers += page.Counts.Servers
	st.Live += page.Counts.Live
	st.Deleted += page.Counts.Deleted
	return st.setProgress(progress)
}

// stale returns the part of a committed page that still needs work: the rows that have left
// their positions in lists. It returns nil if there are none.
func (p *pageRecord) stale() *pageRecord {
	left := &pageRecord{Number: p.Number}
	for _, r := range p.Rows {
		if r.Before != nil {
			left.Rows = append(left.Rows, changedRow{Name: r.Name, Version: r.Version, Before: r.Before})
		}
	}
	if len(left.Rows) == 0 {
		return nil
	}
	return left
}

// write writes a row on the condition that it is unchanged since it was planned.
func (w *Writer) write(ctx context.Context, r plannedRow) error {
	if err := w.checkLease(); err != nil {
		return err
	}
	record := r.row.record(rowID(r.Name, r.Version))
	record.Listed = r.After.entries(r.Name, r.Version)
	_, err := w.c.rows.Put(ctx, record, storage.Unchanged(r.expected))
	if errors.Is(err, storage.ErrConflict) {
		return w.conflictError(ctx)
	}
	return err
}

// conflictError returns the reason why a row has changed: most likely another writer has taken
// over.
func (w *Writer) conflictError(ctx context.Context) error {
	if err := w.swap(ctx, func(*stateRecord) error { return nil }); err != nil {
		return err
	}
	return fmt.Errorf("storage/catalogue: %w: a row has changed meanwhile", storage.ErrUnavailable)
}

// cleanUp finishes the work that this writer or a previous one left: it undoes a page that is
// not committed, and removes the entries that a committed page made stale.
func (w *Writer) cleanUp(ctx context.Context) error {
	if w.outcomeUnknown {
		// An earlier write of the state may still be in progress. It cannot succeed after
		// this one.
		if err := w.swap(ctx, func(*stateRecord) error { return nil }); err != nil {
			return err
		}
		w.outcomeUnknown = false
	}
	if page := w.current().pages.Pending; page != nil {
		if err := w.undo(ctx, page); err != nil {
			return err
		}
	}
	return w.sweep(ctx)
}

// sweep removes the entries that the last page made stale.
func (w *Writer) sweep(ctx context.Context) error {
	done := w.current().pages.Done
	if done == nil || done.Number == w.swept {
		return nil
	}
	for _, r := range done.Rows {
		if err := w.c.rows.Unlist(ctx, r.Before.entries(r.Name, r.Version)); err != nil {
			return err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.swept = done.Number
	return nil
}
