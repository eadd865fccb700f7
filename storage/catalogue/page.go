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

// Query selects rows and their order. The default order is by name, then version, both as text.
type Query struct {
	// Latest selects the rows that are the latest of their servers. Version, if not empty,
	// selects the rows of exactly that version.
	Latest  bool
	Version string
	// Deleted includes deleted rows.
	Deleted bool
	// Since, if not zero, selects the rows updated later, and orders them by update time first.
	Since time.Time
	// Name, if not empty, selects the versions of one server and orders them by age: the last
	// published first, and of versions published at the same time the highest. All other
	// fields except Deleted and MaxBytes are then ignored. See [State.ByAge].
	Name string
	// Match, if not nil, selects rows by server name. Other rows are not read.
	Match func(name string) bool
	// Seek, if not nil, is an index for Match: it returns the first name not before the
	// argument that Match may select, and false if there is none. Set it to skip names that do
	// not match. It has no effect together with Since.
	Seek func(name string) (next string, ok bool)
	// MaxBytes is the limit of the records on a page in bytes. A page may have a single row
	// above the limit. 0 means 8 MiB.
	MaxBytes int
}

// Page is a page of the rows of a query.
type Page struct {
	Entries []Entry
	// More reports whether rows may follow, and Next is the position of the next page. A page
	// with More may have fewer rows than the limit, or none, because the work is limited too.
	Next string
	More bool
	// Committed is the number of the last commit that the page shows.
	Committed uint64
	// Unreadable counts rows that are left out because they are damaged.
	Unreadable int
}

// Limits of the cost of a page. A page of up to 249 rows that are selected by their position in
// a list takes four round trips, or five with deleted rows: the state, one or two lists, the
// rows, and the state again.
const (
	maxPage        = 1000 // rows
	maxPageBytes   = 8 << 20
	maxReadBytes   = 4 << 20 // of rows read at once, if their sizes are known
	wideIndexPage  = 1000    // entries read at once to filter them
	maxIndexPages  = 20
	seekIndexPage  = 16 // entries read at once with Seek
	maxSeeks       = 150
	maxStaleAtOnce = 16
	rowsAtOnce     = 250 // rows read at once after stale entries among the first rows
	readAttempts   = 16
)

// errRestless is returned if pages are committed faster than they can be read.
var errChanging = fmt.Errorf("storage/catalogue: %w: it kept changing", storage.ErrUnavailable)

// Page returns up to limit rows, at most 1000, from the beginning or from the Page.Next of a
// page of the same query. It has either all or none of the rows of one commit. If nothing
// changes, the pages of a query have every row exactly once. The error is
// [storage.ErrUnavailable] if the catalogue changes faster than it can be read.
func (c *Catalogue) Page(ctx context.Context, q Query, after string, limit int) (Page, error) {
	return c.read(ctx, q.scan(min(max(limit, 1), maxPage)), after)
}

// scan selects the rows of a list to read.
type scan struct {
	order   order
	deleted bool   // read the list of deleted rows too
	start   string // position at which the scan begins
	prefix  string // common prefix of the entries to read
	chosen  func(listedRow) bool
	seek    func(name string) (next string, ok bool)
	limit   int // rows
	bytes   int // of records
	size    int // entries read at once
	// whole selects the versions whose records are returned; nil selects all.
	whole func(version string) bool
	// visit, if not nil, is called for every row on the page, possibly twice for one row. It must
	// not keep the version.
	visit func(listedRow, *rowVersion)
}

// scan returns the scan of a query: in the order in which its rows are adjacent, if there is
// one, or else with a filter.
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
	if !q.filters(s.order) {
		return s
	}
	s.chosen, s.size = q.selects, wideIndexPage
	if q.Seek != nil && s.order != byUpdated {
		s.seek, s.size = q.Seek, seekIndexPage
	}
	return s
}

// filters reports whether an order of rows alone does not select the rows of the query.
func (q Query) filters(o order) bool {
	return q.Match != nil || q.Latest && o != byLatest || q.Version != "" && o != byVersion
}

// selects reports whether the query selects a listed row.
func (q Query) selects(r listedRow) bool {
	return (!q.Latest || r.latest) && (q.Version == "" || r.version == q.Version) && (q.Match == nil || q.Match(r.name))
}

// read repeats a scan until no page is committed during it.
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
	return Page{}, cmp.Or(err, errChanging)
}

// walk is one attempt at a scan.
type walk struct {
	scan
	c     *Catalogue
	state stateRecord
	page  Page
	read  int               // bytes of records on the page
	last  listedRow         // the last row of the page
	stale []storage.Listing // entries that no row will ever match again
	bad   map[string]bool   // ids of damaged rows
	room  rowRoom           // of the row that is read
}

// walk fills the page. It continues until it finds one row more, so that a page with More is
// mostly followed by another row.
func (w *walk) walk(ctx context.Context, after string) error {
	steps := maxIndexPages
	if w.seek != nil {
		steps = maxSeeks
	}
	var rows []listedRow
	for range steps {
		entries, exhausted, err := w.entries(ctx, w.skip(after))
		if err != nil {
			return err
		}
		if len(entries) > 0 {
			after = entries[len(entries)-1].Entry
		}
		rows = w.choose(rows, entries)
		if !exhausted && len(rows) <= w.limit-len(w.page.Entries) {
			w.widen()
			continue
		}
		if full, err := w.readRows(ctx, rows); full || exhausted || err != nil {
			return err
		}
		rows = rows[:0]
		w.widen()
	}
	full, err := w.readRows(ctx, rows)
	if !full {
		w.page.More, w.page.Next = true, after
	}
	return err
}

// widen increases the number of entries read at once. It is called if the entries read so far
// had too few rows, because many are stale or not selected.
func (w *walk) widen() {
	if w.seek == nil {
		w.size = wideIndexPage
	}
}

// skip returns the position before the next name that may be selected, or the end of the list.
func (w *walk) skip(after string) string {
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

// endOfNames sorts after every name.
const endOfNames = "\xff"

// entries reads the next entries of the list, or of both lists merged. exhausted reports whether
// no entry follows.
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
		entries = slices.Grow(entries, len(page))
		for _, entry := range page {
			entries = append(entries, storage.Listing{Index: index, Entry: entry})
		}
	}
	if w.deleted { // merge the two lists
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

// choose appends the selected rows of entries to rows.
func (w *walk) choose(rows []listedRow, entries []storage.Listing) []listedRow {
	rows = slices.Grow(rows, len(entries))
	for _, l := range entries {
		if row, ok := w.order.parse(l); ok && (w.chosen == nil || w.chosen(row)) {
			rows = append(rows, row)
		}
	}
	return rows
}
