// Package testkit is shared by the suites of storage/storagetest and
// storage/catalogue/cataloguetest: separate keys in a shared database, and comparisons.
package testkit

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"gatehouse.example/storage"
)

// Isolated gives a Store its own keys in a shared database. It keeps a copy of every write, and
// the indexes that lost entries.
type Isolated struct {
	storage.Backend
	prefix string

	mu      sync.Mutex
	written []storage.Put
	removed []string // the indexes that lost an entry
}

// NewIsolated returns an Isolated backend in a database.
func NewIsolated(b storage.Backend) *Isolated { return &Isolated{Backend: b, prefix: Unique("")} }

// Get implements [storage.Backend], as do the following methods.
func (b *Isolated) Get(ctx context.Context, key string) (storage.Item, error) {
	return b.Backend.Get(ctx, b.prefix+key)
}

// GetMany implements [storage.Backend].
func (b *Isolated) GetMany(ctx context.Context, keys []string) ([]storage.Item, error) {
	prefixed := make([]string, len(keys))
	for i, key := range keys {
		prefixed[i] = b.prefix + key
	}
	return b.Backend.GetMany(ctx, prefixed)
}

// Put keeps a copy of the write.
func (b *Isolated) Put(ctx context.Context, put storage.Put) (storage.Item, error) {
	sent := put
	sent.Data, sent.Listed = bytes.Clone(put.Data), slices.Clone(put.Listed)
	b.mu.Lock()
	b.written = append(b.written, sent)
	b.mu.Unlock()
	put.Key = b.prefix + put.Key
	put.Listed = slices.Clone(put.Listed)
	for i := range put.Listed {
		put.Listed[i].Index = b.prefix + put.Listed[i].Index
	}
	return b.Backend.Put(ctx, put)
}

// Delete implements [storage.Backend].
func (b *Isolated) Delete(ctx context.Context, key string) error {
	return b.Backend.Delete(ctx, b.prefix+key)
}

// IndexAdd implements [storage.Backend].
func (b *Isolated) IndexAdd(ctx context.Context, index, entry string) error {
	return b.Backend.IndexAdd(ctx, b.prefix+index, entry)
}

// IndexRemove records the index.
func (b *Isolated) IndexRemove(ctx context.Context, index, entry string) error {
	b.mu.Lock()
	b.removed = append(b.removed, index)
	b.mu.Unlock()
	return b.Backend.IndexRemove(ctx, b.prefix+index, entry)
}

// IndexPage implements [storage.Backend].
func (b *Isolated) IndexPage(ctx context.Context, index, after string, limit int) ([]string, error) {
	return b.Backend.IndexPage(ctx, b.prefix+index, after, limit)
}

// IndexPageBefore implements [storage.Backend].
func (b *Isolated) IndexPageBefore(ctx context.Context, index, before string, limit int) ([]string, error) {
	return b.Backend.IndexPageBefore(ctx, b.prefix+index, before, limit)
}

// IndexLen implements [storage.Backend].
func (b *Isolated) IndexLen(ctx context.Context, index string) (int, error) {
	return b.Backend.IndexLen(ctx, b.prefix+index)
}

// Count implements [storage.Backend].
func (b *Isolated) Count(ctx context.Context, c storage.Counting) (storage.Counted, error) {
	c.Pool = b.prefix + c.Pool
	return b.Backend.Count(ctx, c)
}

// Scan returns keys without the prefix that isolates them.
func (b *Isolated) Scan(ctx context.Context, prefix, cursor string, limit int) ([]string, string, error) {
	keys, next, err := b.Backend.Scan(ctx, b.prefix+prefix, cursor, limit)
	for i := range keys {
		keys[i] = strings.TrimPrefix(keys[i], b.prefix)
	}
	return keys, next, err
}

// Writes returns the writes so far.
func (b *Isolated) Writes() []storage.Put {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.written)
}

// Removals returns the indexes that lost an entry, once for each.
func (b *Isolated) Removals() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.removed)
}

// Overwrite replaces the data under key, whatever is there.
func (b *Isolated) Overwrite(t testing.TB, key string, data []byte) {
	t.Helper()
	b.Restore(t, key, storage.Item{Data: data, Version: Operation()})
}

// Item returns what the backend has under key.
func (b *Isolated) Item(t testing.TB, key string) storage.Item {
	t.Helper()
	item, err := b.Get(t.Context(), key)
	if err != nil {
		t.Fatalf("Get of %s: %v", key, err)
	}
	return item
}

// Restore puts an older copy of an item back, as when a copy of the database takes over that
// lacks the last writes.
func (b *Isolated) Restore(t testing.TB, key string, older storage.Item) {
	t.Helper()
	change := storage.Put{Key: key, Data: older.Data, If: storage.Always, Operation: older.Version}
	if _, err := b.Put(t.Context(), change); err != nil {
		t.Fatal(err)
	}
}

// Remove deletes the item under key.
func (b *Isolated) Remove(t testing.TB, key string) {
	t.Helper()
	if err := b.Delete(t.Context(), key); err != nil {
		t.Fatal(err)
	}
}
