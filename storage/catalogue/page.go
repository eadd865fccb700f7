package catalogue

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"gatehouse.example/storage"
)

// Query says which rows to read and in which order: by name, then version, both
// as text.
type Query struct {
	// Latest chooses the rows that are the latest of their servers, Version those of
	// exactly one version.
	Latest  bool
	Version string
	// Deleted includes rows that are deleted.
	Deleted bool
	// Since, if it is not zero, chooses the rows that were updated later than that, and
	// orders them by that time first.
	Since time.Time
	// Name, if it is set, chooses the versions of one server and orders them by age: the last
	// published first, and of those published together the highest. Of the others only
	// Deleted counts then. See [State.ByAge].
	Name string
	// Match, if it is not nil, chooses rows by the names of their servers. Rows of others
	// are not read.
	Match func(name string) bool
	// Seek, if it is not nil, is an index of what Match chooses: it returns the first name
	// from a name on that may be chosen, and false if there is none. Without Since, nothing
	// between is looked at.
	Seek func(name string) (next string, ok bool)
	// MaxBytes is how many bytes of records a page has at most, unless it has one row only.
	// 0 means 8 MiB.
	MaxBytes int
}

// Page is a part of the rows that a query chooses.
type Page struct {
	Entries []Entry
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
	maxPageBytes   = 8 << 20
	maxReadBytes   = 4 << 20 // of rows that are read at once, if their sizes are known
	wideIndexPage  = 1000    // entries that are read at once where names are looked at
	maxIndexPages  = 20
	seekIndexPage  = 16 // entries that are read at once where Seek says where
	maxSeeks       = 150
	maxStaleAtOnce = 16
	rowsAtOnce     = 250 // rows that are read at once when stale entries were among the first
	readAttempts   = 16
)

// errRestless says that pages were committed faster than they could be read.
var errRestless = fmt.Errorf("storage/catalogue: %w: it kept changing", storage.ErrUnavailable)

// Page reads up to limit rows, at most 1000, from the beginning or from
// [Page.Next] of a page of the same query. It shows either all or nothing of what
// was committed together. When nothing changes, the pages of a query have every row once.
func (c *Catalogue) Page(ctx context.Context, q Query, after string, limit int) (Page, error) {
	return c.read(ctx, q.scan(min(max(limit, 1), maxPage)), after)
}

// scan says which rows of a list are read.
type scan struct {
	order   order
	deleted bool   // also in the list of what is deleted
	start   string // where the walk begins
	prefix  string // and what all entries of interest begin with
	chosen  func(listedRow) bool
	seek    func(name string) (next string, ok bool)
	limit   int // rows
	bytes   int // of records
	size    int // entries at once
	// whole chooses the versions whose records are wanted; nil chooses all.
	whole func(version string) bool
	// visit is called for every row on the page if it is set. It may be called twice for one.
	visit func(listedRow, *rowVersion)
}

// scan chooses the order in which the rows of a query stand together, if there is one.
func (q Query) scan(limit int) scan {
	s := scan{order: byName, deleted: q.Deleted, limit: limit, size: limit + 1, bytes: cmp.Or(q.MaxBytes, maxPageBytes)}
	switch {
	case q.Name != "":
		s.order, s.prefix = byAge, q.Name+entrySep
		return s
	case !q.Since.IsZero():
		s.order, s.start = byUpdated, entryTime(q.Since)+afterSep
	case q.Version != "":
		s.order, s.prefix = byVersion, q.Version+entrySep
	case q.Latest:
		s.order = byLatest
	}
	picky := q.Match != nil ||
		q.Latest && s.order != byLatest || q.Version != "" && s.order != byVersion
	if !picky {
		return s
	}
	s.size = wideIndexPage
	if q.Seek != nil && s.order != byUpdated {
		s.seek, s.size = q.Seek, seekIndexPage
	}
	s.chosen = func(r listedRow) bool {
		return (!q.Latest || r.latest) && (q.Version == "" || r.version == q.Version) && (q.Match == nil || q.Match(r.name))
	}
	return s
}

// read scans until nothing was committed meanwhile.
func (c *Catalogue) read(ctx context.Context, s scan, after string) (Page, error) {
	st, err := c.readHead(ctx)
	for range readAttempts {
		if err != nil {
			return Page{}, err
		}
		w := walk{scan: s, c: c, state: st}
		if s.order == byAge && st.Orders < allOrders {
			w.order = byName
		}
		if err := w.walk(ctx, max(after, s.start, s.prefix)); err != nil {
			return Page{}, err
		}
		if st, err = c.readHead(ctx); err == nil && st.Committed == w.state.Committed && st.First == w.state.First {
			w.page.Committed = st.Committed
			c.removeStale(ctx, w.stale)
			return w.page, nil
		}
	}
	return Page{}, cmp.Or(err, errRestless)
}

// walk is one attempt at a scan, while nothing is committed.
type walk struct {
	scan
	c     *Catalogue
	state stateRecord
	page  Page
	read  int               // bytes of records that are on the page
	last  listedRow         // the last row of the page
	stale []storage.Listing // entries that no row will ever match again
	bad   map[string]bool   // rows that cannot be read, by their ids
}

// walk fills the page. It goes on until it has found one row more, so that nobody is sent
// on for nothing.
func (w *walk) walk(ctx context.Context, after string) error {
	steps := maxIndexPages
	if w.seek != nil {
		steps = maxSeeks
	}
	var rows []listedRow
	for range steps {
		entries, exhausted, err := w.entries(ctx, w.leap(after))
		if err != nil {
			return err
		}
		if len(entries) > 0 {
			after = entries[len(entries)-1].Entry
		}
		rows = append(rows, w.choose(entries)...)
		if !exhausted && len(rows) <= w.limit-len(w.page.Entries) {
			w.widen()
			continue
		}
		if full, err := w.take(ctx, rows); full || exhausted || err != nil {
			return err
		}
		rows = rows[:0]
		w.widen()
	}
	full, err := w.take(ctx, rows)
	if !full {
		w.page.More, w.page.Next = true, after
	}
	return err
}

// widen is for when what was read was not enough, because of stale entries or because few
// rows are of interest: so there is more of it.
func (w *walk) widen() {
	if w.seek == nil {
		w.size = wideIndexPage
	}
}

// leap returns the place before the next name that may be chosen, or the end of the list.
func (w *walk) leap(after string) string {
	if w.seek == nil {
		return after
	}
	begin := ""
	if w.order == byVersion {
		begin = w.prefix
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(after, begin), entrySep)
	next, ok := w.seek(name)
	switch {
	case !ok:
		return begin + endOfNames
	case next == name:
		return after
	}
	return begin + next + entrySep
}

// endOfNames comes after every name, and before what begins otherwise.
const endOfNames = "\xff"

// entries reads the next entries of the list, or of both lists in one order. They are
// exhausted when there is none behind them.
func (w *walk) entries(ctx context.Context, after string) (entries []storage.Listing, exhausted bool, err error) {
	exhausted = true
	for _, deleted := range []bool{false, true} {
		if deleted && !w.deleted {
			break
		}
		index := w.order.list(deleted)
		page, err := w.c.state.IndexPage(ctx, index, after, w.size)
		if err != nil {
			return nil, false, err
		}
		exhausted = exhausted && len(page) < w.size
		for _, entry := range page {
			entries = append(entries, storage.Listing{Index: index, Entry: entry})
		}
	}
	if w.deleted { // the first ones of each are the first ones of both
		slices.SortStableFunc(entries, func(a, b storage.Listing) int { return strings.Compare(a.Entry, b.Entry) })
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
func (w *walk) choose(entries []storage.Listing) []listedRow {
	rows := make([]listedRow, 0, len(entries))
	for _, l := range entries {
		if row, ok := w.order.parse(l); ok && (w.chosen == nil || w.chosen(row)) {
			rows = append(rows, row)
		}
	}
	return rows
}
