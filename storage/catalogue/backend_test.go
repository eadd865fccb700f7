package catalogue_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"gatehouse.example/storage"
)

const issuer = "https://issuer.example.com"

func now() time.Time { return time.Date(2031, time.March, 4, 5, 6, 7, 0, time.UTC) }

// plainBackend keeps all items in maps, without goroutines and lifetimes, so that it works in a
// testing/synctest bubble. It counts operations and can call a function before each.
type plainBackend struct {
	mu      sync.Mutex
	items   map[string]storage.Item
	indexes map[string][]string

	before func(op string) // without the lock
	counts map[string]int
	fails  error // if not nil, every operation returns it
}

func newPlain() *plainBackend {
	return &plainBackend{items: map[string]storage.Item{}, indexes: map[string][]string{}, counts: map[string]int{}}
}

// do runs one operation.
func (p *plainBackend) do(op string, f func()) error {
	if p.before != nil {
		p.before(op)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts[op]++
	if p.fails != nil {
		return p.fails
	}
	f()
	return nil
}

func (p *plainBackend) Get(_ context.Context, key string) (item storage.Item, err error) {
	if err := p.do("get", func() { item = p.items[key] }); err != nil {
		return storage.Item{}, err
	}
	if item.Version == (storage.Version{}) {
		return item, storage.ErrNotFound
	}
	return item, nil
}

func (p *plainBackend) GetMany(_ context.Context, keys []string) ([]storage.Item, error) {
	items := make([]storage.Item, len(keys))
	return items, p.do("get many", func() {
		for i, key := range keys {
			items[i] = p.items[key]
		}
	})
}

func (p *plainBackend) Put(_ context.Context, put storage.Put) (item storage.Item, err error) {
	for _, l := range put.Listed {
		if err := p.IndexAdd(context.Background(), l.Index, l.Entry); err != nil {
			return storage.Item{}, err
		}
	}
	failed := p.do("put", func() {
		if item = p.items[put.Key]; item.Version == put.Operation {
			return
		}
		if !put.If.Any() && item.Version != put.If.Version() {
			err = storage.ErrConflict
			return
		}
		item = storage.Item{Data: slices.Clone(put.Data), Version: put.Operation}
		p.items[put.Key] = item
	})
	return item, errors.Join(failed, err)
}

func (p *plainBackend) Lineage(context.Context) (storage.Lineage, error) { return "", nil }

func (p *plainBackend) Delete(_ context.Context, key string) error {
	return p.do("delete", func() { delete(p.items, key) })
}

func (p *plainBackend) IndexAdd(_ context.Context, index, entry string) error {
	return p.do("index add", func() {
		if i, found := slices.BinarySearch(p.indexes[index], entry); !found {
			p.indexes[index] = slices.Insert(p.indexes[index], i, entry)
		}
	})
}

func (p *plainBackend) IndexRemove(_ context.Context, index, entry string) error {
	return p.do("index remove", func() {
		if i, found := slices.BinarySearch(p.indexes[index], entry); found {
			p.indexes[index] = slices.Delete(p.indexes[index], i, i+1)
		}
	})
}

func (p *plainBackend) IndexPage(_ context.Context, index, after string, limit int) (page []string, err error) {
	err = p.do("index page", func() {
		i, found := slices.BinarySearch(p.indexes[index], after)
		if found {
			i++
		}
		rest := p.indexes[index][i:]
		page = slices.Clone(rest[:max(0, min(limit, len(rest)))])
	})
	return page, err
}

func (p *plainBackend) IndexPageBefore(_ context.Context, index, before string, limit int) (page []string, err error) {
	err = p.do("index page", func() {
		i := len(p.indexes[index])
		if before != "" {
			i, _ = slices.BinarySearch(p.indexes[index], before)
		}
		for ; i > 0 && len(page) < limit; i-- {
			page = append(page, p.indexes[index][i-1])
		}
	})
	return page, err
}

func (p *plainBackend) IndexLen(_ context.Context, index string) (n int, err error) {
	err = p.do("index len", func() { n = len(p.indexes[index]) })
	return n, err
}

func (p *plainBackend) Count(context.Context, storage.Counting) (storage.Counted, error) {
	return storage.Counted{}, storage.ErrUnavailable // no catalogue counts
}

func (p *plainBackend) Room() storage.Room { return storage.RoomEnough }

func (p *plainBackend) Scan(_ context.Context, prefix, _ string, _ int) (keys []string, next string, err error) {
	err = p.do("scan", func() {
		for key := range p.items {
			if strings.HasPrefix(key, prefix) {
				keys = append(keys, key)
			}
		}
	})
	return keys, "", err
}

func (p *plainBackend) Close() error { return nil }

func (p *plainBackend) clone() *plainBackend {
	c := newPlain()
	for key, item := range p.items {
		c.items[key] = item
	}
	for index, entries := range p.indexes {
		c.indexes[index] = slices.Clone(entries)
	}
	return c
}

// changes returns the number of changes.
func (p *plainBackend) changes() int {
	return p.counts["put"] + p.counts["index add"] + p.counts["index remove"] + p.counts["delete"]
}
