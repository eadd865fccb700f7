package catalogue

import (
	"context"
	"time"

	"gatehouse.example/storage"
)

// relistStep is the number of rows that one write adds to the new lists.
const relistStep = 250

// Relist adds rows to the lists that earlier releases do not have, some rows per call, and
// reports whether more calls are needed. Readers use the new lists when all rows are in them:
// then [State.ByAge] is true. A writer of an earlier release makes it false again.
func (w *Writer) Relist(ctx context.Context) (more bool, err error) {
	w.writing.Lock()
	defer w.writing.Unlock()
	if w.current().Orders >= allOrders {
		return false, nil
	}
	if err := w.cleanUp(ctx); err != nil {
		return false, err
	}
	var entries []storage.Listing
	none := func(string) bool { return false }
	page, err := w.c.read(ctx, scan{
		order: byName, deleted: true, limit: relistStep, size: relistStep + 1, bytes: maxPageBytes, whole: none,
		visit: func(r listedRow, v *rowVersion) {
			for _, l := range v.listing().entries(r.name, r.version) {
				if l.Index == byAge.list(false) || l.Index == byAge.list(true) {
					entries = append(entries, l)
				}
			}
		},
	}, w.relisted)
	if err != nil {
		return false, err
	}
	err = w.swap(ctx, func(st *stateRecord) error {
		if !page.More {
			st.Orders = allOrders
		}
		return nil
	}, entries...)
	if err != nil {
		return false, err
	}
	w.relisted = page.Next
	return page.More, nil
}

// Names calls visit with the names of all servers or, if since is not zero, of the servers with
// a row updated later. It reads lists and no rows: a name may occur several times, and names of
// rows that are not committed may occur. Rows that are committed meanwhile may be missing.
func (c *Catalogue) Names(ctx context.Context, since time.Time, visit func(name string)) error {
	order, start := byName, ""
	if !since.IsZero() {
		order, start = byUpdated, entryTime(since)+afterSep
	}
	for _, deleted := range []bool{false, true} {
		for after, more := start, true; more; {
			page, err := c.state.IndexPage(ctx, order.list(deleted), after, wideIndexPage)
			if err != nil {
				return err
			}
			for _, entry := range page {
				if row, ok := order.parse(storage.Listing{Entry: entry}); ok {
					visit(row.name)
				}
				after = entry
			}
			more = len(page) == wideIndexPage
		}
	}
	return nil
}
