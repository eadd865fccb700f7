package transfer

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"gatehouse.example/storage"
)

const (
	// lookPause is the pause between two looks at the mark, and lookLimit the time for one. A look
	// counts for lookTime, in which a part of a cluster that is down has a new primary: while the
	// mark is in that part, the others go on.
	lookPause = time.Second
	lookLimit = 2 * time.Second
	lookTime  = 30 * time.Second
	// NoticeTime is how long after a source was marked the last write that a [Guard] let through
	// has been settled: the time for which a look counts, and that of an attempt that began at its end.
	NoticeTime = 40 * time.Second
)

// Guard returns a backend that passes everything on to another one, and refuses with a
// [MarkedError] while a copy has marked the store. It looks at the mark once a second, beside the
// operations; only if no look succeeded for 30 seconds, an operation waits for one. If the store
// is marked now, Guard returns that error and leaves the backend open.
//
// Every program that uses a store puts a Guard in front of it, so that the store can be copied.
func Guard(ctx context.Context, backend storage.Backend) (storage.Backend, error) {
	g := &guard{backend: backend, turn: make(chan struct{}, 1)}
	if err := g.look(ctx); err != nil {
		return nil, err
	}
	ctx, g.stop = context.WithCancel(context.WithoutCancel(ctx))
	g.stopped.Go(func() { g.keepLooking(ctx) })
	return g, nil
}

type guard struct {
	backend storage.Backend
	turn    chan struct{} // holds one token, for one look at a time
	last    atomic.Pointer[glance]

	stop    context.CancelFunc
	stopped sync.WaitGroup
}

// glance is the result of a look.
type glance struct {
	began   time.Time
	refusal error
}

func (g *guard) recent() *glance {
	if last := g.last.Load(); last != nil && time.Since(last.began) < lookTime {
		return last
	}
	return nil
}

// keepLooking looks until ctx ends. A look that fails is left to the operations.
func (g *guard) keepLooking(ctx context.Context) {
	ticker := time.NewTicker(lookPause)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		if g.take(ctx) == nil {
			within, cancel := context.WithTimeout(ctx, lookLimit)
			_ = g.read(within)
			cancel()
			<-g.turn
		}
	}
}

// take waits for the turn to look, which the caller gives back.
func (g *guard) take(ctx context.Context) error {
	select {
	case g.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// look returns an error if the store is marked, or if that cannot be told.
func (g *guard) look(ctx context.Context) error {
	if last := g.recent(); last != nil {
		return last.refusal
	}
	if err := g.take(ctx); err != nil {
		return err
	}
	defer func() { <-g.turn }()
	if last := g.recent(); last != nil { // another one has looked meanwhile
		return last.refusal
	}
	return g.read(ctx)
}

// read reads the mark, and returns an error if there is one or if it cannot be read.
func (g *guard) read(ctx context.Context) error {
	now := &glance{began: time.Now()}
	m, err := readMark(ctx, g.backend)
	if err != nil {
		return err
	}
	if m != nil {
		now.refusal = m.refusal()
	}
	g.last.Store(now)
	return now.refusal
}

// guarded runs an operation unless the store is marked.
func guarded[T any](ctx context.Context, g *guard, operation func() (T, error)) (result T, err error) {
	if err := g.look(ctx); err != nil {
		return result, err
	}
	return operation()
}

func (g *guard) run(ctx context.Context, operation func() error) error {
	if err := g.look(ctx); err != nil {
		return err
	}
	return operation()
}

// Get implements [storage.Backend].
func (g *guard) Get(ctx context.Context, key string) (storage.Item, error) {
	return guarded(ctx, g, func() (storage.Item, error) { return g.backend.Get(ctx, key) })
}

// GetMany implements [storage.Backend].
func (g *guard) GetMany(ctx context.Context, keys []string) ([]storage.Item, error) {
	return guarded(ctx, g, func() ([]storage.Item, error) { return g.backend.GetMany(ctx, keys) })
}

// Put implements [storage.Backend].
func (g *guard) Put(ctx context.Context, put storage.Put) (storage.Item, error) {
	return guarded(ctx, g, func() (storage.Item, error) { return g.backend.Put(ctx, put) })
}

// Lineage implements [storage.Backend].
func (g *guard) Lineage(ctx context.Context) (storage.Lineage, error) { return g.backend.Lineage(ctx) }

// Delete implements [storage.Backend].
func (g *guard) Delete(ctx context.Context, key string) error {
	return g.run(ctx, func() error { return g.backend.Delete(ctx, key) })
}

// IndexAdd implements [storage.Backend].
func (g *guard) IndexAdd(ctx context.Context, index, entry string) error {
	return g.run(ctx, func() error { return g.backend.IndexAdd(ctx, index, entry) })
}

// IndexRemove implements [storage.Backend].
func (g *guard) IndexRemove(ctx context.Context, index, entry string) error {
	return g.run(ctx, func() error { return g.backend.IndexRemove(ctx, index, entry) })
}

// IndexPage implements [storage.Backend].
func (g *guard) IndexPage(ctx context.Context, index, after string, limit int) ([]string, error) {
	return guarded(ctx, g, func() ([]string, error) { return g.backend.IndexPage(ctx, index, after, limit) })
}

// Count implements [storage.Backend].
func (g *guard) Count(ctx context.Context, c storage.Counting) (storage.Counted, error) {
	return guarded(ctx, g, func() (storage.Counted, error) { return g.backend.Count(ctx, c) })
}

// IndexPageBefore implements [storage.Backend].
func (g *guard) IndexPageBefore(ctx context.Context, index, before string, limit int) ([]string, error) {
	return guarded(ctx, g, func() ([]string, error) { return g.backend.IndexPageBefore(ctx, index, before, limit) })
}

// IndexLen implements [storage.Backend].
func (g *guard) IndexLen(ctx context.Context, index string) (int, error) {
	return guarded(ctx, g, func() (int, error) { return g.backend.IndexLen(ctx, index) })
}

// Room implements [storage.Backend].
func (g *guard) Room() storage.Room { return g.backend.Room() }

// Scan implements [storage.Backend].
func (g *guard) Scan(ctx context.Context, prefix, cursor string, limit int) (keys []string, next string, err error) {
	if err := g.look(ctx); err != nil {
		return nil, "", err
	}
	return g.backend.Scan(ctx, prefix, cursor, limit)
}

// Close implements [storage.Backend].
func (g *guard) Close() error {
	g.stop()
	g.stopped.Wait()
	return g.backend.Close()
}
