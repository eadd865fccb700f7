package catalogue

import (
	"context"
	"errors"
	"slices"

	"gatehouse.example/storage"
)

// readRows reads rows and adds the visible ones to the page. It stops and returns true when it
// has found a row that does not fit.
func (w *walk) readRows(ctx context.Context, rows []listedRow) (full bool, err error) {
	for n := w.limit + 1 - len(w.page.Entries); len(rows) > 0; n = max(n, rowsAtOnce) {
		n := w.rowsThatFit(rows[:min(n, len(rows))])
		if full, err := w.readSome(ctx, rows[:n]); full || err != nil {
			return full, err
		}
		rows = rows[n:]
	}
	return false, nil
}

// rowsThatFit returns the number of rows to read at once: at least one, and no more bytes than
// the page can still take.
func (w *walk) rowsThatFit(rows []listedRow) int {
	room := min(w.bytes-w.read, maxReadBytes)
	for i, r := range rows {
		if room -= weight(r.size); room < 0 {
			return max(i, 1)
		}
	}
	return len(rows)
}

func (w *walk) readSome(ctx context.Context, rows []listedRow) (full bool, err error) {
	ids := make([]string, len(rows))
	for i, r := range rows {
		ids[i] = w.order.id(r)
	}
	items, err := w.c.rows.GetMany(ctx, ids)
	if err != nil {
		return false, err
	}
	w.page.Entries = slices.Grow(w.page.Entries, min(len(rows), w.limit-len(w.page.Entries)))
	for i, r := range rows {
		v, err := w.visible(r, items[i])
		switch {
		case errors.Is(err, storage.ErrRecord):
			w.unreadable(ids[i])
		case err != nil:
			return false, err
		case v == nil:
		case !w.add(r, v):
			return true, nil
		}
	}
	return false, nil
}

// add adds a row to the page. It returns false if the page is full.
func (w *walk) add(r listedRow, v *rowVersion) bool {
	e := v.entry(r.name, r.version)
	if w.whole != nil && !w.whole(r.version) {
		e.Server, e.Meta = nil, nil
	}
	bytes := len(e.Server) + len(e.Meta)
	if n := len(w.page.Entries); n == w.limit || n > 0 && bytes > w.bytes-w.read {
		w.page.More, w.page.Next = true, w.last.behind()
		return false
	}
	if w.visit != nil {
		w.visit(r, v)
	}
	w.page.Entries, w.last, w.read = append(w.page.Entries, e), r, w.read+bytes
	return true
}

// unreadable counts a damaged row, once even if it has several list entries.
func (w *walk) unreadable(id string) {
	if w.bad == nil {
		w.bad = map[string]bool{}
	}
	w.bad[id] = true
	w.page.Unreadable = len(w.bad)
}

// visible returns the row version visible to this read, nil if there is none or if the list
// entry belongs to another version. It is valid until the next row is read.
func (w *walk) visible(r listedRow, item storage.Item) (*rowVersion, error) {
	row, err := w.c.decodeRowInto(&w.room, item)
	if err != nil {
		return nil, err
	}
	v := row.visibleIn(w.state)
	if v != nil && v.Stamp == r.stamp {
		return v, nil
	}
	// The writer removes the entries that the last page added or made stale. Older ones can be
	// removed: since the last page is committed, the page before was acknowledged, and no other
	// page has its number.
	if r.stamp < w.state.Committed && (v == nil || v.Seq < w.state.Committed) && len(w.stale) < maxStaleAtOnce {
		w.stale = append(w.stale, r.Listing)
	}
	return nil, nil
}

// removeStale removes entries of a writer that ended or that wrote after another one had taken
// over. If it fails, the next reader tries again.
func (c *Catalogue) removeStale(ctx context.Context, stale []storage.Listing) {
	_ = c.state.Unlist(ctx, stale)
}
