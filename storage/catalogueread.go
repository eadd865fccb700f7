package storage

import (
	"context"
	"errors"
)

// take reads rows and puts those that hold on the page, until it has one more than fits.
func (w *catalogueWalk) take(ctx context.Context, rows []listedRow) (full bool, err error) {
	for n := w.limit + 1 - len(w.page.Entries); len(rows) > 0; n = max(n, manyAtOnce) {
		n := w.bearable(rows[:min(n, len(rows))])
		if full, err := w.takeSome(ctx, rows[:n]); full || err != nil {
			return full, err
		}
		rows = rows[n:]
	}
	return false, nil
}

// bearable returns how many of the rows can be read at once, at least one: no more bytes than
// the page has room for.
func (w *catalogueWalk) bearable(rows []listedRow) int {
	room := min(w.bytes-w.read, maxReadBytes)
	for i, r := range rows {
		if room -= weight(r.size); room < 0 {
			return max(i, 1)
		}
	}
	return len(rows)
}

func (w *catalogueWalk) takeSome(ctx context.Context, rows []listedRow) (full bool, err error) {
	keys := make([]string, len(rows))
	for i, r := range rows {
		keys[i] = rowKey(r.name, r.version)
	}
	items, err := w.store.getMany(ctx, keys)
	if err != nil {
		return false, err
	}
	for i, r := range rows {
		v, err := w.hold(r, items[i])
		switch {
		case errors.Is(err, ErrRecord):
			w.unreadable(keys[i])
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
func (w *catalogueWalk) add(r listedRow, v *rowVersion) bool {
	e := v.entry(r.name, r.version)
	if w.whole != nil && !w.whole(r.version) {
		e.Server, e.Meta = nil, nil
	}
	bytes := len(e.Server) + len(e.Meta)
	if n := len(w.page.Entries); n == w.limit || n > 0 && bytes > w.bytes-w.read {
		w.page.More, w.page.Next = true, w.last.behind()
		return false
	}
	if w.held != nil {
		w.held(r, v)
	}
	w.page.Entries, w.last, w.read = append(w.page.Entries, e), r, w.read+bytes
	return true
}

// unreadable counts a row once, however many entries it has.
func (w *catalogueWalk) unreadable(key string) {
	if w.bad == nil {
		w.bad = map[string]bool{}
	}
	w.bad[key] = true
	w.page.Unreadable = len(w.bad)
}

// hold returns the version of a row that holds, if the entry is about that one.
func (w *catalogueWalk) hold(r listedRow, item Item) (*rowVersion, error) {
	row, err := w.store.decodeRow(item)
	if err != nil {
		return nil, err
	}
	v := row.at(w.state)
	if v != nil && v.Stamp == r.stamp {
		return v, nil
	}
	// An entry that the last page has added or made stale is its writer's. What came
	// before is over for good: that the last page is there says that the one before was
	// acknowledged, and no page has the same number.
	if r.stamp < w.state.Committed && (v == nil || v.Seq < w.state.Committed) && len(w.stale) < maxStaleAtOnce {
		w.stale = append(w.stale, r.Listing)
	}
	return nil, nil
}

// removeStale removes entries that a writer left behind which is gone, or which wrote when
// another one had taken over. If it fails, whoever comes next does it.
func (s *Store) removeStale(ctx context.Context, stale []Listing) {
	for _, l := range stale {
		if s.indexRemove(ctx, l.Index, l.Entry) != nil {
			return
		}
	}
}
