package transfer

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"gatehouse.example/storage"
)

// pageLen is how many records or entries are read at once; no more are in memory.
const pageLen = 250

// Writers is how many writes are under way at the same time. In a file they share an fsync; to a
// server there should be as many connections.
const Writers = 125

// namesOf is [storage.Backend.Scan], or Indexes of [storage.IndexLister].
type namesOf func(ctx context.Context, prefix, cursor string, limit int) (names []string, next string, err error)

// pages returns all names under the prefix of a store, without that of the mark.
func pages(ctx context.Context, names namesOf) iter.Seq2[[]string, error] {
	return func(yield func([]string, error) bool) {
		for cursor := ""; ; {
			page, next, err := names(ctx, storage.KeyPrefix, cursor, pageLen)
			page = slices.DeleteFunc(page, func(name string) bool { return name == markKey })
			if !yield(page, err) || err != nil {
				return
			}
			if cursor = next; cursor == "" {
				return
			}
		}
	}
}

// entries returns the entries of an index, in pages.
func entries(ctx context.Context, b storage.Backend, index string) iter.Seq2[[]string, error] {
	return func(yield func([]string, error) bool) {
		for after := ""; ; {
			page, err := b.IndexPage(ctx, index, after, pageLen)
			if !yield(page, err) || err != nil || len(page) < pageLen {
				return
			}
			after = page[len(page)-1]
		}
	}
}

// read returns the items under some keys. The error names the one that is not an item.
func read(ctx context.Context, b storage.Backend, keys []string) ([]storage.Item, error) {
	items := make([]storage.Item, 0, len(keys))
	for chunk := range slices.Chunk(keys, pageLen) {
		some, err := b.GetMany(ctx, chunk)
		if errors.Is(err, storage.ErrRecord) {
			for _, key := range chunk {
				if _, one := b.Get(ctx, key); errors.Is(one, storage.ErrRecord) {
					return nil, fmt.Errorf("%s: %w", key, one)
				}
			}
		}
		if err != nil {
			return nil, err
		}
		items = append(items, some...)
	}
	return items, nil
}

// record is a record of the source.
type record struct {
	key  string
	item storage.Item
	storage.Inspected
}

// carried returns those of some records that belong to the copy.
func carried(page []record) []record {
	return slices.DeleteFunc(page, func(r record) bool { return r.Over || r.Code })
}

// records returns the records of the source, in pages.
func (r *run) records(ctx context.Context) iter.Seq2[[]record, error] {
	return func(yield func([]record, error) bool) {
		for keys, err := range pages(ctx, r.from.Scan) {
			var page []record
			if err == nil {
				page, err = r.inspected(ctx, keys)
			}
			if !yield(page, err) || err != nil {
				return
			}
		}
	}
}

func (r *run) inspected(ctx context.Context, keys []string) (page []record, err error) {
	items, err := read(ctx, r.from, keys)
	if err != nil {
		return nil, err
	}
	for i, key := range keys {
		if items[i].Version == (storage.Version{}) {
			continue // it has ended
		}
		in, err := r.store.Inspect(key, items[i])
		if err != nil {
			return nil, err
		}
		page = append(page, record{key, items[i], in})
	}
	return page, nil
}

// each calls do for the entries of a list, some at the same time, and returns the first error.
func each[T any](ctx context.Context, list []T, do func(context.Context, T) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var workers sync.WaitGroup
	places := make(chan struct{}, Writers)
	for _, one := range list {
		places <- struct{}{}
		workers.Go(func() {
			defer func() { <-places }()
			if err := ctx.Err(); err != nil {
				return
			}
			if err := do(ctx, one); err != nil {
				cancel(err)
			}
		})
	}
	workers.Wait()
	return context.Cause(ctx)
}

// A write whose outcome is not known is sent again.
const (
	attempts     = 20
	attemptPause = 100 * time.Millisecond
)

// settled repeats a write, which must do the same when it is repeated, until its outcome is known.
func settled(ctx context.Context, write func() error) error {
	for attempt := 1; ; attempt++ {
		err := write()
		if !errors.Is(err, storage.ErrUncertain) || attempt == attempts {
			return err
		}
		select {
		case <-time.After(attemptPause):
		case <-ctx.Done():
			return err
		}
	}
}
