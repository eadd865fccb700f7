package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// takenBackTime is how long a row that was never committed stays in the way of whoever
// wrote it and may not know yet that it is over.
const takenBackTime = 24 * time.Hour

// undo takes back a page that was announced and is not committed. Every row of it is
// written, also one that is as it was: a late write by whoever announced the page then
// finds something else than it expects.
func (w *CatalogueWriter) undo(ctx context.Context, page *cataloguePageRecord) error {
	keys := make([]string, len(page.Rows))
	for i, r := range page.Rows {
		keys[i] = rowKey(r.Name, r.Version)
	}
	items, err := w.store.getMany(ctx, keys)
	if err != nil {
		return err
	}
	for i, key := range keys {
		if err := w.takeBack(ctx, page.Number, key, items[i]); err != nil {
			return err
		}
	}
	for _, r := range page.Rows {
		if err := w.store.unlist(ctx, r.Is.entries(r.Name, r.Version), nil); err != nil {
			return err
		}
	}
	return w.swap(ctx, func(st *catalogueState) error {
		st.pages.Pending = nil
		return nil
	})
}

// takeBack writes a row as it was before a page. One that was not there is there then,
// without a version.
func (w *CatalogueWriter) takeBack(ctx context.Context, page uint64, key string, item Item) error {
	for range changeAttempts {
		if err := w.mayWrite(); err != nil {
			return err
		}
		put, err := w.store.before(page, item)
		if err != nil {
			return err
		}
		put.Key, put.If = key, Unchanged(item.Version)
		if _, err := io.ReadFull(w.store.rand, put.Operation[:]); err != nil {
			return fmt.Errorf("storage: random: %w", err)
		}
		item, err = w.store.put(ctx, put)
		if err == nil {
			return nil
		}
		if !errors.Is(err, ErrConflict) {
			return unavailable("take back", err)
		}
	}
	return fmt.Errorf("storage: catalogue: %w: a row kept changing", ErrUnavailable)
}

// before returns what is to be written in place of an item so that a page has not touched
// it. What cannot be read is no page's, and stays.
func (s *Store) before(page uint64, item Item) (Put, error) {
	row, err := s.decodeRow(item)
	if err != nil && !errors.Is(err, ErrRecord) {
		return Put{}, err
	}
	if row.current != nil && row.current.Seq == page {
		row = catalogueRow{current: row.previous}
	} else if err != nil || row.current != nil {
		return Put{Data: item.Data}, nil
	}
	body, err := row.encode()
	if err != nil {
		return Put{}, err
	}
	if row.current != nil {
		return Put{Data: s.frame(formPlain, kindCatalogueRow, "", Version{}, 0, body)}, nil
	}
	until := uint64(s.now().Add(takenBackTime).UnixMilli())
	return Put{Data: s.frame(formPlain, kindCatalogueRow, "", Version{}, until, body), TTL: takenBackTime + slack}, nil
}
