package redis

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"gatehouse.example/storage"
)

// embedded is a [storage.Backend] in the memory of this process, for servers that need no Redis. It
// does one command at a time, as every Redis.
type embedded struct {
	now         func() time.Time
	onRoundTrip func()

	mu      sync.Mutex
	closed  bool
	items   map[string]held
	swept   time.Time // when items that had ended were last removed
	ends    list      // the ends of items, see endOf
	indexes map[string]*list
	pools   *storage.Pools
}

// held is an item as it is kept. Its data is never changed.
type held struct {
	storage.Item
	ends time.Time // zero for an item without an end
}

// tickTime is the shortest time between two searches for items that have ended. Until then they only
// take memory.
const tickTime = time.Second

func openEmbedded(ctx context.Context, o Options) (storage.Backend, error) {
	now := o.Now
	if now == nil {
		now = time.Now
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("storage/redis: open: %w", err)
	}
	return &embedded{
		now: now, onRoundTrip: o.OnRoundTrip, swept: now(), items: map[string]held{}, indexes: map[string]*list{},
		pools: storage.NewPools(now),
	}, nil
}

// do runs one command. It has no deadline, because a command cannot hang and a busy machine would
// miss one.
func (e *embedded) do(ctx context.Context, what string, command func(now time.Time) error) error {
	if err := ctx.Err(); err != nil {
		return readError(what, certain(err))
	}
	if e.onRoundTrip != nil {
		e.onRoundTrip()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return readError(what, goredis.ErrClosed)
	}
	now := e.now()
	e.sweep(now)
	return command(now)
}

// sweep removes the items that have ended.
func (e *embedded) sweep(now time.Time) {
	if now.Sub(e.swept) < tickTime {
		return
	}
	e.swept = now
	for _, end := range e.ends.upTo(second(now) + "\xff") { // no key begins with that byte
		e.ends.remove(end)
		delete(e.items, end[secondLen:])
	}
}

// endOf returns the entry of an item in the list of ends: the second by which it has ended, and its
// key.
func endOf(at time.Time, key string) string { return second(at.Add(time.Second)) + key }

const secondLen = 8

// second returns the second of a time as a string that sorts by time.
func second(at time.Time) string {
	var s [secondLen]byte
	binary.BigEndian.PutUint64(s[:], uint64(max(at.Unix(), 0)))
	return string(s[:])
}

// item returns the item under a key, the zero Item if there is none. Its data must not be changed.
func (e *embedded) item(key string, now time.Time) storage.Item {
	h := e.items[key]
	if !h.ends.IsZero() && !now.Before(h.ends) {
		return storage.Item{}
	}
	return h.Item
}

// Get implements [storage.Backend].
func (e *embedded) Get(ctx context.Context, key string) (item storage.Item, err error) {
	err = e.do(ctx, "get", func(now time.Time) error {
		if item = e.item(key, now); item.Version == (storage.Version{}) {
			return storage.ErrNotFound
		}
		item.Data = bytes.Clone(item.Data)
		return nil
	})
	return item, err
}

// GetMany implements [storage.Backend].
func (e *embedded) GetMany(ctx context.Context, keys []string) ([]storage.Item, error) {
	items := make([]storage.Item, len(keys))
	err := e.do(ctx, "get many", func(now time.Time) error {
		for i, key := range keys {
			items[i] = e.item(key, now)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for rest := items; len(rest) > 0; {
		rest = rest[copyData(rest):]
	}
	return items, nil
}

// Put implements [storage.Backend]: it does what putScript does.
func (e *embedded) Put(ctx context.Context, put storage.Put) (item storage.Item, err error) {
	if err := checkPut(put); err != nil {
		return storage.Item{}, err
	}
	if put.Confirmation {
		return storage.Item{Data: put.Data, Version: put.Operation}, nil
	}
	err = e.do(ctx, "put", func(now time.Time) error {
		for _, l := range put.Listed {
			e.index(l.Index).add(l.Entry)
		}
		item = e.item(put.Key, now)
		item.Data = bytes.Clone(item.Data)
		switch {
		case item.Version == put.Operation:
			return nil
		case put.On != "": // there are no replicas that could take over
			item = storage.Item{}
			return storage.ErrLineage
		case !put.If.Any() && item.Version != put.If.Version():
			return storage.ErrConflict
		}
		item = storage.Item{Data: put.Data, Version: put.Operation}
		e.set(put, now)
		return nil
	})
	return item, err
}

// set stores an item in place of the one that is there.
func (e *embedded) set(put storage.Put, now time.Time) {
	e.unlistEnd(put.Key)
	h := held{Item: storage.Item{Data: bytes.Clone(put.Data), Version: put.Operation}}
	if put.TTL != 0 {
		h.ends = now.Add(put.TTL)
		e.ends.add(endOf(h.ends, put.Key))
	}
	e.items[put.Key] = h
}

// unlistEnd removes the end of the item under a key from the list.
func (e *embedded) unlistEnd(key string) {
	if h := e.items[key]; !h.ends.IsZero() {
		e.ends.remove(endOf(h.ends, key))
	}
}

// Room implements [storage.Backend]: the memory of this process is not bounded.
func (e *embedded) Room() storage.Room { return storage.RoomEnough }

// Lineage implements [storage.Backend]: no other server can take over.
func (e *embedded) Lineage(context.Context) (storage.Lineage, error) { return "", nil }

// Delete implements [storage.Backend].
func (e *embedded) Delete(ctx context.Context, key string) error {
	return e.do(ctx, "delete", func(time.Time) error {
		e.unlistEnd(key)
		delete(e.items, key)
		return nil
	})
}

// IndexAdd implements [storage.Backend].
func (e *embedded) IndexAdd(ctx context.Context, index, entry string) error {
	return e.onIndex(ctx, "index add", index, func(l *list) { l.add(entry) })
}

// IndexRemove implements [storage.Backend].
func (e *embedded) IndexRemove(ctx context.Context, index, entry string) error {
	return e.onIndex(ctx, "index remove", index, func(l *list) { l.remove(entry) })
}

// IndexPage implements [storage.Backend].
func (e *embedded) IndexPage(ctx context.Context, index, after string, limit int) (page []string, err error) {
	err = e.onIndex(ctx, "index page", index, func(l *list) { page = l.page(after, limit) })
	return page, err
}

// IndexPageBefore implements [storage.Backend].
func (e *embedded) IndexPageBefore(ctx context.Context, index, before string, limit int) (page []string, err error) {
	err = e.onIndex(ctx, "index page", index, func(l *list) { page = l.pageBefore(before, limit) })
	return page, err
}

// IndexLen implements [storage.Backend].
func (e *embedded) IndexLen(ctx context.Context, index string) (n int, err error) {
	err = e.onIndex(ctx, "index len", index, func(l *list) { n = l.n })
	return n, err
}

// onIndex runs a command on an index. An index without entries is not kept.
func (e *embedded) onIndex(ctx context.Context, what, name string, command func(*list)) error {
	return e.do(ctx, what, func(time.Time) error {
		l := e.index(name)
		command(l)
		if l.n == 0 {
			delete(e.indexes, name)
		}
		return nil
	})
}

func (e *embedded) index(name string) *list {
	l := e.indexes[name]
	if l == nil {
		l = &list{}
		e.indexes[name] = l
	}
	return l
}

// Scan implements [storage.Backend]. Everything is one page.
func (e *embedded) Scan(ctx context.Context, prefix, _ string, _ int) (keys []string, next string, err error) {
	err = e.do(ctx, "scan", func(now time.Time) error {
		for key := range e.items {
			if strings.HasPrefix(key, prefix) && e.item(key, now).Version != (storage.Version{}) {
				keys = append(keys, key)
			}
		}
		return nil
	})
	return keys, "", err
}

// Indexes implements [storage.IndexLister]. Everything is one page.
func (e *embedded) Indexes(ctx context.Context, prefix, _ string, _ int) (names []string, next string, err error) {
	err = e.do(ctx, "indexes", func(time.Time) error {
		for name := range e.indexes {
			if strings.HasPrefix(name, prefix) {
				names = append(names, name)
			}
		}
		return nil
	})
	return names, "", err
}

// Close implements [storage.Backend].
func (e *embedded) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	e.items, e.ends, e.indexes = nil, list{}, nil
	return nil
}
