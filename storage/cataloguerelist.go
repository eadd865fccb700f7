package storage

import (
	"context"
	"time"
)

// relistStep is how many rows are brought into a new order by one write.
const relistStep = 250

// Relist brings rows into the orders that an earlier release did not know, some at a time,
// and reports whether there are more of them. Nothing of it changes what readers see before
// all rows are in all orders: then [CatalogueState.ByAge] is true. A writer of an earlier
// release makes it false again.
func (w *CatalogueWriter) Relist(ctx context.Context) (more bool, err error) {
	w.writing.Lock()
	defer w.writing.Unlock()
	if w.current().Orders >= catalogueOrders {
		return false, nil
	}
	if err := w.settle(ctx); err != nil {
		return false, err
	}
	var entries []Listing
	none := func(string) bool { return false }
	page, err := w.store.scanCatalogue(ctx, catalogueScan{
		order: byName, deleted: true, limit: relistStep, size: relistStep + 1, bytes: maxPageBytes, whole: none,
		held: func(r listedRow, v *rowVersion) {
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
	err = w.swap(ctx, func(st *catalogueState) error {
		if !page.More {
			st.Orders = catalogueOrders
		}
		return nil
	}, entries...)
	if err != nil {
		return false, err
	}
	w.relisted = page.Next
	return page.More, nil
}

// CatalogueNames tells of the names of all servers, or of those with a row that was updated
// later than since. It reads no rows, only what lists say: a name may come often, and there
// may be names of which nothing was committed yet. Rows that are committed while it reads
// may be missing.
func (s *Store) CatalogueNames(ctx context.Context, since time.Time, tell func(name string)) error {
	order, start := byName, ""
	if !since.IsZero() {
		order, start = byUpdated, entryTime(since)+afterSep
	}
	for _, deleted := range []bool{false, true} {
		for after, more := start, true; more; {
			page, err := s.indexPage(ctx, order.list(deleted), after, wideIndexPage)
			if err != nil {
				return err
			}
			for _, entry := range page {
				if row, ok := order.parse(Listing{Entry: entry}); ok {
					tell(row.name)
				}
				after = entry
			}
			more = len(page) == wideIndexPage
		}
	}
	return nil
}
