package catalogue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gatehouse.example/storage"
)

// takenBackTime is how long the empty record stays in place of a row that was never
// committed, so that a late write of it fails.
const takenBackTime = 24 * time.Hour

// undo takes back a page that was announced and is not committed. Every row of it is
// written, also one that is as it was: a late write by whoever announced the page then
// fails, because it was conditional on what was there before.
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
		if err := w.takeBack(ctx, page.Number, id, items[i]); err != nil {
			return err
		}
	}
	for _, r := range page.Rows {
		if err := w.c.rows.Unlist(ctx, r.Is.entries(r.Name, r.Version)); err != nil {
			return err
		}
	}
	return w.swap(ctx, func(st *stateRecord) error {
		st.pages.Pending = nil
		return nil
	})
}

// takeBack writes a row as it was before a page. A row that was not there becomes a record
// without a version, which expires.
func (w *Writer) takeBack(ctx context.Context, page uint64, id string, item storage.Item) error {
	for range changeAttempts {
		if err := w.mayWrite(); err != nil {
			return err
		}
		there, err := w.c.putBefore(ctx, page, id, item)
		if err == nil || !errors.Is(err, storage.ErrConflict) {
			return err
		}
		item = there
	}
	return fmt.Errorf("storage/catalogue: %w: a row kept changing", storage.ErrUnavailable)
}

// putBefore writes in place of an item what was there before a page. An item that cannot be
// read was not written by a page, and keeps its bytes.
func (c *Catalogue) putBefore(ctx context.Context, page uint64, id string, item storage.Item) (storage.Item, error) {
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
		r.Expires = c.store.Now().Add(takenBackTime)
	}
	return c.rows.Put(ctx, r, storage.Unchanged(item.Version))
}
