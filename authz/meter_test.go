package authz_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"gatehouse.example/storage"
	"gatehouse.example/storage/storagetest"
)

// clock is a clock that a test sets.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// meter is a backend that counts calls, and runs functions of the test before and after them.
type meter struct {
	storage.Backend
	reads, writes atomic.Int64
	counts        atomic.Int64 // of limits
	before, after atomic.Pointer[func(op, key string)]
	failing       atomic.Pointer[string]
	unanswered    atomic.Pointer[unanswered]
}

// unanswered is a write that is done and whose reply never comes, however often it is sent again: the
// first one of a kind of record. The time of whoever waits for it is over with the first attempt.
type unanswered struct {
	kind string
	over chan struct{}

	mu        sync.Mutex
	operation storage.Version // zero before the first attempt
}

// loses reports whether the reply of a write that was done is lost.
func (u *unanswered) loses(put storage.Put) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.operation == (storage.Version{}) && strings.HasPrefix(put.Key, "gatehouse:"+u.kind+":") {
		u.operation = put.Operation
		close(u.over)
	}
	return put.Operation == u.operation
}

// failReads makes reads of records of that kind fail, until it is called with "".
func (m *meter) failReads(kind string) { m.failing.Store(&kind) }

// readFault returns the error of a read of these keys, if it is to fail.
func (m *meter) readFault(keys ...string) error {
	kind := m.failing.Load()
	if kind != nil && *kind != "" && slices.ContainsFunc(keys, func(key string) bool { return strings.HasPrefix(key, "gatehouse:"+*kind+":") }) {
		return storagetest.ErrDown
	}
	return nil
}

func (m *meter) note(op, key string, n *atomic.Int64) (done func()) {
	n.Add(1)
	call(&m.before, op, key)
	return func() { call(&m.after, op, key) }
}

func call(hook *atomic.Pointer[func(op, key string)], op, key string) {
	if f := hook.Load(); f != nil {
		(*f)(op, key)
	}
}

// holdGrantReads makes the first n reads of grants return only when all of them have been
// made, so that every reader gets the same record.
func (m *meter) holdGrantReads(n int) { m.holdReadsOf("grant", n) }

// holdReadsOf is holdGrantReads for another kind of record.
func (m *meter) holdReadsOf(kind string, n int) {
	var made atomic.Int64
	all := make(chan struct{})
	f := func(op, key string) {
		if !strings.HasPrefix(op, "get") || !strings.HasPrefix(key, "gatehouse:"+kind+":") {
			return
		}
		if made.Add(1) == int64(n) {
			close(all)
		}
		<-all
	}
	m.after.Store(&f)
}

// once calls f before the first call of op on a key of that kind. A "get" may be one of several.
func (m *meter) once(hook *atomic.Pointer[func(op, key string)], op, kind string, f func()) {
	var done atomic.Bool
	step := func(o, key string) {
		if (o == op || op == "get" && o == "get many") && strings.HasPrefix(key, "gatehouse:"+kind+":") && done.CompareAndSwap(false, true) {
			f()
		}
	}
	hook.Store(&step)
}

func (m *meter) Get(ctx context.Context, key string) (storage.Item, error) {
	defer m.note("get", key, &m.reads)()
	if err := m.readFault(key); err != nil {
		return storage.Item{}, err
	}
	return m.Backend.Get(ctx, key)
}

func (m *meter) GetMany(ctx context.Context, keys []string) ([]storage.Item, error) {
	m.reads.Add(1)
	for _, key := range keys {
		call(&m.before, "get many", key)
		defer call(&m.after, "get many", key)
	}
	if err := m.readFault(keys...); err != nil {
		return nil, err
	}
	return m.Backend.GetMany(ctx, keys)
}

func (m *meter) Put(ctx context.Context, put storage.Put) (storage.Item, error) {
	if l, err := m.Backend.Lineage(ctx); put.Confirmation && err == nil && l == "" {
		return m.Backend.Put(ctx, put) // no replica has to confirm, so nothing is sent
	}
	if m.before.Load() != nil { // an entry and its item are written separately, so that a test can act in between
		for _, l := range put.Listed {
			if err := m.IndexAdd(ctx, l.Index, l.Entry); err != nil {
				return storage.Item{}, err
			}
		}
		put.Listed = nil
	}
	defer m.note("put", put.Key, &m.writes)()
	item, err := m.Backend.Put(ctx, put)
	if u := m.unanswered.Load(); u != nil && u.loses(put) {
		return storage.Item{}, fmt.Errorf("%w: the reply was lost", storage.ErrUncertain)
	}
	return item, err
}

func (m *meter) Delete(ctx context.Context, key string) error {
	defer m.note("delete", key, &m.writes)()
	return m.Backend.Delete(ctx, key)
}

func (m *meter) IndexAdd(ctx context.Context, index, entry string) error {
	defer m.note("index add", index, &m.writes)()
	return m.Backend.IndexAdd(ctx, index, entry)
}

func (m *meter) IndexRemove(ctx context.Context, index, entry string) error {
	defer m.note("index remove", index, &m.writes)()
	return m.Backend.IndexRemove(ctx, index, entry)
}

func (m *meter) IndexPage(ctx context.Context, index, after string, limit int) ([]string, error) {
	defer m.note("index page", index, &m.reads)()
	return m.Backend.IndexPage(ctx, index, after, limit)
}

func (m *meter) IndexPageBefore(ctx context.Context, index, before string, limit int) ([]string, error) {
	defer m.note("index page", index, &m.reads)()
	return m.Backend.IndexPageBefore(ctx, index, before, limit)
}

func (m *meter) Count(ctx context.Context, c storage.Counting) (storage.Counted, error) {
	defer m.note("count", c.Pool, &m.counts)()
	return m.Backend.Count(ctx, c)
}

func (m *meter) IndexLen(ctx context.Context, index string) (int, error) {
	defer m.note("index len", index, &m.reads)()
	return m.Backend.IndexLen(ctx, index)
}
