package catalogue

import (
	"context"
	"errors"

	"gatehouse.example/storage"
)

// take reads rows and puts the visible ones on the page, until it has one more than fits.
func (w *walk) take(ctx context.Context, rows []listedRow) (full bool, err error) {
	for n := w.limit + 1 - len(w.page.Entries); len(rows) > 0; n = max(n, rowsAtOnce) {
		n := w.affordable(rows[:min(n, len(rows))])
		if full, err := w.takeSome(ctx, rows[:n]); full || err != nil {
			return full, err
		}
		rows = rows[n:]
	}
	return false, nil
}

// affordable returns how many of the rows can be read at once, at least one: no more bytes than
// the page has room for.
func (w *walk) affordable(rows []listedRow) int {
	room := min(w.bytes-w.read, maxReadBytes)
	for i, r := range rows {
		if room -= weight(r.size); room < 0 {
			return max(i, 1)
		}
	}
	return len(rows)
}

func (w *walk) takeSome(ctx context.Context, rows []listedRow) (full bool, err error) {
	ids := make([]string, len(rows))
	for i, r := range rows {
		ids[i] = rowID(r.name, r.version)
	}
	items, err := w.c.rows.GetMany(ctx, ids)
	if err != nil {
		return false, err
	}
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

// add puts a row on the page, unless that is full.
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

// unreadable counts a row once, however many entries it has.
func (w *walk) unreadable(id string) {
	if w.bad == nil {
		w.bad = map[string]bool{}
	}
	w.bad[id] = true
	w.page.Unreadable = len(w.bad)
}

// visible returns the row version visible to this read, nil if there is none or if the entry
// is about another one.
func (w *walk) visible(r listedRow, item storage.Item) (*rowVersion, error) {
	row, err := w.c.decodeRow(item)
	if err != nil {
		return nil, err
	}
	v := row.at(w.state)
	if v != nil && v.Stamp == r.stamp {
		return v, nil
	}
	// An entry that the last page has added or made stale is left to its writer. Older ones
	// can be removed: that the last page is there says that the one before was acknowledged,
	// and no page has the same number.
	if r.stamp < w.state.Committed && (v == nil || v.Seq < w.state.Committed) && len(w.stale) < maxStaleAtOnce {
		w.stale = append(w.stale, r.Listing)
	}
	return nil, nil
}

// removeStale removes entries of a writer that is gone, or that wrote when another one had
// taken over. If it fails, the next reader does it.
func (c *Catalogue) removeStale(ctx context.Context, stale []storage.Listing) {
	_ = c.state.Unlist(ctx, stale)
}
