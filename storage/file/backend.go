package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"

	"gatehouse.example/storage"
)

var _ storage.IndexLister = (*Backend)(nil)

// view reads the state that is on the disk.
func (b *Backend) view(ctx context.Context, read func(tx *bolt.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := b.committer.failure(); err != nil {
		return err
	}
	tx, err := b.readers.take(ctx)
	if err != nil {
		return err
	}
	defer b.readers.give(tx)
	if err := guarded(func() error { return read(tx.Tx) }); err != nil {
		return b.named(err)
	}
	return nil
}

// Get returns the item under key, or [storage.ErrNotFound].
func (b *Backend) Get(ctx context.Context, key string) (storage.Item, error) {
	items, err := b.GetMany(ctx, []string{key})
	if err != nil {
		return storage.Item{}, err
	}
	if items[0].Version == (storage.Version{}) {
		return storage.Item{}, storage.ErrNotFound
	}
	return items[0], nil
}

// GetMany returns the items under keys, all of one state of the file.
func (b *Backend) GetMany(ctx context.Context, keys []string) ([]storage.Item, error) {
	items, now := make([]storage.Item, len(keys)), b.clock.now()
	err := b.view(ctx, func(tx *bolt.Tx) error {
		for i, key := range keys {
			s, err := item(tx, key, now)
			if err != nil {
				return err
			}
			items[i] = kept(s.Item)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return items, nil
}

// kept returns an item that stays valid after its transaction.
func kept(i storage.Item) storage.Item {
	i.Data = bytes.Clone(i.Data)
	return i
}

// maxKey is the greatest length of a key in bytes: the queue puts a time before it.
const maxKey = bolt.MaxKeySize - 8

// Put applies one write; see [storage.Backend].
func (b *Backend) Put(ctx context.Context, put storage.Put) (storage.Item, error) {
	switch {
	case put.Operation == (storage.Version{}):
		return storage.Item{}, errors.New("storage/file: put: an operation id is required")
	case put.TTL < 0:
		return storage.Item{}, errors.New("storage/file: put: the lifetime is negative")
	case put.On != "" && put.On != b.lineage:
		return b.putElsewhere(ctx, put)
	case len(put.Key) == 0 || len(put.Key) > maxKey:
		return storage.Item{}, fmt.Errorf("storage/file: put: a key of %d bytes", len(put.Key))
	case put.Confirmation:
		return storage.Item{Data: put.Data, Version: put.Operation}, nil
	}
	for _, l := range put.Listed {
		if _, err := entryKey(l.Index, l.Entry); err != nil {
			return storage.Item{}, err
		}
	}
	var there storage.Item
	var refused error
	err := b.change(ctx, func(tx *bolt.Tx) (err error) {
		there, refused, err = apply(tx, put, b.clock.now())
		return err
	})
	if err != nil {
		return storage.Item{}, err
	}
	return there, refused
}

// putElsewhere answers a write for another lineage: it may have happened before.
func (b *Backend) putElsewhere(ctx context.Context, put storage.Put) (storage.Item, error) {
	there, err := b.Get(ctx, put.Key)
	if err == nil && there.Version == put.Operation {
		return there, nil
	}
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return storage.Item{}, err
	}
	return storage.Item{}, storage.ErrLineage
}

// apply applies a write in a transaction. A refusal changes nothing but the listed entries. An item
// that is damaged is not overwritten.
func apply(tx *bolt.Tx, put storage.Put, now time.Time) (there storage.Item, refused, err error) {
	for _, l := range put.Listed {
		if err := addEntry(tx, l.Index, l.Entry); err != nil {
			return storage.Item{}, nil, err
		}
	}
	present, err := item(tx, put.Key, now)
	switch {
	case err != nil:
		return storage.Item{}, nil, err
	case present.Version == put.Operation:
		return kept(present.Item), nil, nil
	case !put.If.Any() && present.Version != put.If.Version():
		return kept(present.Item), storage.ErrConflict, nil
	}
	next := stored{Item: storage.Item{Data: put.Data, Version: put.Operation}}
	if put.TTL > 0 {
		next.ends = uint64(now.Add(put.TTL + time.Millisecond - 1).UnixMilli()) // never earlier
	}
	return next.Item, nil, store(tx, put.Key, next)
}

// Delete removes the item under key.
func (b *Backend) Delete(ctx context.Context, key string) error {
	return b.changeAnyway(ctx, func(tx *bolt.Tx) error { return remove(tx, key) })
}
