package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// CatalogueQuery says which rows to read and in which order: by name, then version, both
// as text.
type CatalogueQuery struct {
	// Latest chooses the rows that are the latest of their servers, Version those of
	// exactly one version.
	Latest  bool
	Version string
	// Deleted includes rows that are deleted.
	Deleted bool
	// Since, if it is not zero, chooses the rows that were updated later than that, and
	// orders them by that time first.
	Since time.Time
	// Match, if it is not nil, chooses rows by the names of their servers. Rows of others
	// are not read.
	Match func(name string) bool
}

// CataloguePage is a part of the rows that a query chooses.
type CataloguePage struct {
	Entries []CatalogueEntry
	// Next is where the next page begins, if there is More. A page may have fewer rows
	// than were asked for, or none, and yet there is more: work is bounded too.
	Next string
	More bool
	// Committed is the number of the last page that had been committed.
	Committed uint64
	// Unreadable counts rows that are left out because they cannot be read.
	Unreadable int
}

// What a page costs at most. One of up to 249 rows that are chosen by their place in a list
// takes four round trips, or five with deleted ones: the state, the list, the rows, and the
// state again.
const (
	maxPage        = 1000 // rows
	wideIndexPage  = 1000 // entries that are read at once where names are looked at
	maxIndexPages  = 20
	maxStaleAtOnce = 16
	readAttempts   = 16
)

// errRestless says that pages were committed faster than they could be read.
var errRestless = fmt.Errorf("storage: catalogue: %w: it kept changing", ErrUnavailable)

// CataloguePage reads up to limit rows, at most 1000, from the beginning or from
// [CataloguePage.Next] of a page of the same query. It shows either all or nothing of what
// was committed together. When nothing changes, the pages of a query have every row once.
func (s *Store) CataloguePage(ctx context.Context, q CatalogueQuery, after string, limit int) (CataloguePage, error) {
	return s.scanCatalogue(ctx, q.scan(min(max(limit, 1), maxPage)), after)
}

// catalogueScan is a walk through a list.
type catalogueScan struct {
	order   catalogueOrder
	deleted bool   // also in the list of what is deleted
	start   string // where the walk begins
	prefix  string // and what all entries of interest begin with
	chosen  func(listedRow) bool
	limit   int // rows
	size    int // entries at once
}

// scan chooses the order in which the rows of a query stand together, if there is one.
func (q CatalogueQuery) scan(limit int) catalogueScan {
	c := catalogueScan{order: byName, deleted: q.Deleted, limit: limit, size: limit + 1}
	switch {
	case !q.Since.IsZero():
		c.order, c.start = byUpdated, entryTime(q.Since)+afterSep
	case q.Version != "":
		c.order, c.prefix = byVersion, q.Version+entrySep
	case q.Latest:
		c.order = byLatest
	}
	picky := q.Match != nil ||
		q.Latest && c.order != byLatest || q.Version != "" && c.order != byVersion
	if !picky {
		return c
	}
	c.size = wideIndexPage
	c.chosen = func(r listedRow) bool {
		return (!q.Latest || r.latest) && (q.Version == "" || r.version == q.Version) && (q.Match == nil || q.Match(r.name))
	}
	return c
}

// scanCatalogue walks until nothing was committed meanwhile.
func (s *Store) scanCatalogue(ctx context.Context, c catalogueScan, after string) (CataloguePage, error) {
	st, err := s.catalogueState(ctx)
	for range readAttempts {
		if err != nil {
			return CataloguePage{}, err
		}
		w := catalogueWalk{catalogueScan: c, store: s, state: st}
		if err := w.walk(ctx, max(after, c.start, c.prefix)); err != nil {
			return CataloguePage{}, err
		}
		if st, err = s.catalogueState(ctx); err == nil && st.Committed == w.state.Committed && st.First == w.state.First {
			w.page.Committed = st.Committed
			s.removeStale(ctx, w.stale)
			return w.page, nil
		}
	}
	return CataloguePage{}, cmp.Or(err, errRestless)
}

// catalogueWalk is a walk while nothing is committed.
type catalogueWalk struct {
	catalogueScan
	store *Store
	state catalogueState
	page  CataloguePage
	last  listedRow       // the last row of the page
	stale []Listing       // entries that will never hold again
	bad   map[string]bool // rows that cannot be read, by their keys
}

// walk fills the page. It goes on until it has found one row more, so that nobody is sent
// on for nothing.
func (w *catalogueWalk) walk(ctx context.Context, after string) error {
	for range maxIndexPages {
		entries, exhausted, err := w.entries(ctx, after)
		if err != nil {
			return err
		}
		n := w.limit + 1 - len(w.page.Entries)
		for rows := w.choose(entries); len(rows) > 0; n = max(n, manyAtOnce) {
			n = min(n, len(rows))
			if full, err := w.take(ctx, rows[:n]); full || err != nil {
				return err
			}
			rows = rows[n:]
		}
		if exhausted {
			return nil
		}
		// What was read was not enough, because of stale entries or because few rows are
		// of interest. So there is more of it.
		after, w.size = entries[len(entries)-1].Entry, wideIndexPage
	}
	w.page.More, w.page.Next = true, after
	return nil
}

// entries reads the next entries of the list, or of both lists in one order. They are
// exhausted when there is none behind them.
func (w *catalogueWalk) entries(ctx context.Context, after string) (entries []Listing, exhausted bool, err error) {
	exhausted = true
	for _, deleted := range []bool{false, true} {
		if deleted && !w.deleted {
			break
		}
		index := w.order.list(deleted)
		page, err := w.store.indexPage(ctx, index, after, w.size)
		if err != nil {
			return nil, false, err
		}
		exhausted = exhausted && len(page) < w.size
		for _, entry := range page {
			entries = append(entries, Listing{index, entry})
		}
	}
	if w.deleted { // the first ones of each are the first ones of both
		slices.SortStableFunc(entries, func(a, b Listing) int { return strings.Compare(a.Entry, b.Entry) })
		if len(entries) > w.size {
			entries, exhausted = entries[:w.size], false
		}
	}
	for i, l := range entries {
		if !strings.HasPrefix(l.Entry, w.prefix) {
			return entries[:i], true, nil
		}
	}
	return entries, exhausted, nil
}

// choose returns the rows of interest among entries.
func (w *catalogueWalk) choose(entries []Listing) []listedRow {
	rows := make([]listedRow, 0, len(entries))
	for _, l := range entries {
		if row, ok := w.order.parse(l); ok && (w.chosen == nil || w.chosen(row)) {
			rows = append(rows, row)
		}
	}
	return rows
}

// take reads rows and puts those that hold on the page, until it has one more than fits.
func (w *catalogueWalk) take(ctx context.Context, rows []listedRow) (full bool, err error) {
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
		case len(w.page.Entries) == w.limit:
			w.page.More, w.page.Next = true, w.last.behind()
			return true, nil
		default:
			w.page.Entries, w.last = append(w.page.Entries, v.entry(r.name, r.version)), r
		}
	}
	return false, nil
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
