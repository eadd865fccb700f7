package catalogue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gatehouse.example/storage"
)

// undoneTime is the lifetime of the empty record that replaces a row that was never committed.
// While it exists, a late write of the row fails.
const undoneTime = 24 * time.Hour

// undo undoes a page that was announced and is not committed. It writes every row of the page,
// even an unchanged one, so that a late write of the writer that announced the page fails its
// condition.
func (w *Writer) undo(ctx context.Context, page *pageRecord) error {
	ids := make([]string, len(page.Rows))
	for i, r := range page.Rows {
		ids[i] = rowID(r.Name, r.Version)
	}
	items, err := w.c.rows.GetMany(ctx, ids)
	if err != nil {
		return err
	}
	for i, id := range ids {
		if err := w.restore(ctx, page.Number, id, items[i]); err != nil {
			return err
		}
	}
	for _, r := range page.Rows {
		if err := w.c.rows.Unlist(ctx, r.After.entries(r.Name, r.Version)); err != nil {
			return err
		}
	}
	return w.swap(ctx, func(st *stateRecord) error {
		st.pages.Pending = nil
		return nil
	})
}

// restore writes a row as it was before a page. A row that did not exist becomes a record
// without a version, which expires.
func (w *Writer) restore(ctx context.Context, page uint64, id string, item storage.Item) error {
	for range changeAttempts {
		if err := w.checkLease(); err != nil {
			return err
		}
		stored, err := w.c.putPrevious(ctx, page, id, item)
		if err == nil || !errors.Is(err, storage.ErrConflict) {
			return err
		}
		item = stored
	}
	return fmt.Errorf("storage/catalogue: %w: a row kept changing", storage.ErrUnavailable)
}

// putPrevious replaces an item by its state before a page. A damaged item keeps its bytes,
// because no page wrote it.
func (c *Catalogue) putPrevious(ctx context.Context, page uint64, id string, item storage.Item) (storage.Item, error) {
	row, err := c.decodeRow(item)
	if err != nil && !errors.Is(err, storage.ErrRecord) {
		return storage.Item{}, err
	}
	if row.current != nil && row.current.Seq == page {
		row = storedRow{current: row.previous}
	} else if err != nil || row.current != nil {
		return c.rows.Touch(ctx, id, item)
	}
	r := row.record(id)
	if row.current == nil {
		r.Expires = c.store.Now().Add(undoneTime)
	}
	return c.rows.Put(ctx, r, storage.Unchanged(item.Version))
}
