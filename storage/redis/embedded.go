package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	goredis "github.com/redis/go-redis/v9"

	"gatehouse.example/storage"
)

// embedded is a [storage.Backend] over a Redis inside this process. It listens on no port and has
// no connections: values are read and written directly, one command at a time as in every Redis.
// A script would take a hundred times as long. Indexes are kept outside of it, because it sorts a
// whole set for each page.
type embedded struct {
	server      *miniredis.Miniredis
	now         func() time.Time
	onRoundTrip func()

	mu      sync.Mutex
	closed  bool
	last    time.Time // the time up to which the server's clock has run
	ends    list      // the seconds in which items end, or would have ended
	indexes map[string]*list
	pools   *storage.Pools
}

// tickTime is the shortest time between two runs of the embedded server's clock. Each run looks
// at every key, so it runs only when some item may have ended. An item may live a little longer
// than it must, and never shorter.
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
		server: miniredis.NewMiniRedis(), now: now, onRoundTrip: o.OnRoundTrip, last: now(), indexes: map[string]*list{},
		pools: storage.NewPools(now),
	}, nil
}

// do runs one command. It has no deadline, because a command cannot hang and a busy machine would
// miss one. The server's clock, which does not run by itself, is set first.
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
	e.catchUp(now)
	return command(now)
}

func (e *embedded) catchUp(now time.Time) {
	elapsed := now.Sub(e.last)
	if elapsed < tickTime {
		return
	}
	over := e.ends.upTo(second(now))
	if len(over) == 0 {
		return
	}
	e.last = now
	e.server.FastForward(elapsed)
	for _, end := range over {
		e.ends.remove(end)
	}
}

// second returns the second of a time as a string that sorts by time.
func second(at time.Time) string { return fmt.Sprintf("%016x", uint64(max(at.Unix(), 0))) }

// value returns the item under a key, the zero Item if there is none.
func (e *embedded) value(key string) (storage.Item, error) {
	value, err := e.server.Get(key)
	switch {
	case errors.Is(err, miniredis.ErrKeyNotFound):
		return storage.Item{}, nil
	case err != nil:
		return storage.Item{}, fmt.Errorf("storage/redis: %w: %w", storage.ErrRecord, err)
	}
	return decodeItem(value)
}

// Get implements [storage.Backend].
func (e *embedded) Get(ctx context.Context, key string) (item storage.Item, err error) {
	err = e.do(ctx, "get", func(time.Time) (err error) {
		if item, err = e.value(key); err == nil && item.Version == (storage.Version{}) {
			err = storage.ErrNotFound
		}
		return err
	})
	return item, err
}

// GetMany implements [storage.Backend].
func (e *embedded) GetMany(ctx context.Context, keys []string) ([]storage.Item, error) {
	items := make([]storage.Item, len(keys))
	err := e.do(ctx, "get many", func(time.Time) (err error) {
		for i := 0; i < len(keys) && err == nil; i++ {
			items[i], err = e.value(keys[i])
		}
		return err
	})
	if err != nil {
		return nil, err
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
	err = e.do(ctx, "put", func(now time.Time) (err error) {
		for _, l := range put.Listed {
			e.index(l.Index).add(l.Entry)
		}
		if item, err = e.value(put.Key); err != nil {
			return err
		}
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
		return e.set(put, now)
	})
	return item, err
}

// set stores an item. Its lifetime is counted from the last run of the server's clock, so the
// time since then is added.
func (e *embedded) set(put storage.Put, now time.Time) error {
	if err := e.server.Set(put.Key, string(put.Operation[:])+string(put.Data)); err != nil || put.TTL == 0 {
		return err
	}
	e.server.SetTTL(put.Key, put.TTL+max(now.Sub(e.last), 0))
	e.ends.add(second(now.Add(put.TTL + time.Second)))
	return nil
}

// Room implements [storage.Backend]: the memory of this process is not bounded.
func (e *embedded) Room() storage.Room { return storage.RoomEnough }

// Lineage implements [storage.Backend]: no other server can take over.
func (e *embedded) Lineage(context.Context) (storage.Lineage, error) { return "", nil }

// Delete implements [storage.Backend].
func (e *embedded) Delete(ctx context.Context, key string) error {
	return e.do(ctx, "delete", func(time.Time) error {
		e.server.Del(key)
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
	err = e.do(ctx, "scan", func(time.Time) error {
		for _, key := range e.server.Keys() {
			if strings.HasPrefix(key, prefix) {
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
	e.server.Close()
	return nil
}
