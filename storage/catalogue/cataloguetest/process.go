package cataloguetest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"gatehouse.example/storage"
	"gatehouse.example/storage/storagetest"
)

// process is the backend as one process uses it. The process can be killed, and each of its
// changes can fail.
type process struct {
	storage.Backend

	mu      sync.Mutex
	dead    bool
	quiet   bool                 // renewals of the lease fail
	changes int                  // number of watched changes
	fates   map[int]func() error // outcomes of watched changes, by number
	late    func()               // a change that has not arrived yet
	between func()               // runs after each watched change
	puts    map[string]func()    // run after a write to a key
}

// process returns another process on the same records.
func (f *fixture) process() *process {
	return &process{Backend: f.backend, fates: map[int]func() error{}, puts: map[string]func(){}}
}

func (p *process) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

func (p *process) kill()   { p.set(func() { p.dead = true }) }
func (p *process) revive() { p.set(func() { p.dead, p.quiet = false, false }) }

// afterPut calls f after each write to a key.
func (p *process) afterPut(key string, f func()) { p.set(func() { p.puts[key] = f }) }

// watched marks contexts whose changes count. Renewals of the lease do not count.
func watched(ctx context.Context) context.Context { return context.WithValue(ctx, isWatched{}, true) }

type isWatched struct{}

// beforeChange calls f before the n-th change from now on.
func (p *process) beforeChange(n int, f func()) {
	p.spoil(n, func() error {
		f()
		return nil
	})
}

// spoil sets the outcome of the n-th change from now on.
func (p *process) spoil(n int, fate func() error) {
	p.set(func() { p.fates[p.changes+n] = fate })
}

// errLate is the outcome of a change that gets no reply and may happen later.
var errLate = errors.New("storagetest: it is still on its way")

// errUnheard is the outcome of a change that happens and gets no reply.
var errUnheard = errors.New("storagetest: its reply is lost")

// meet returns the outcome of the next change.
func (p *process) meet(ctx context.Context) (fate func() error, between func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	watched := ctx.Value(isWatched{}) != nil
	switch {
	case p.dead || p.quiet && !watched:
		return func() error { return storagetest.ErrDown }, nil
	case !watched:
		return nil, nil
	}
	fate = p.fates[p.changes]
	p.changes++
	return fate, p.between
}

// change applies the outcome of a change.
func (p *process) change(ctx context.Context, do func(ctx context.Context) error) error {
	fate, between := p.meet(ctx)
	var becomes error
	if fate != nil {
		becomes = fate()
	}
	switch {
	case errors.Is(becomes, errLate):
		p.set(func() { p.late = func() { _ = do(context.WithoutCancel(ctx)) } })
		return fmt.Errorf("%w: %w", storage.ErrUncertain, becomes)
	case becomes != nil && !errors.Is(becomes, errUnheard):
		return becomes
	}
	if becomes != nil {
		ctx = context.WithoutCancel(ctx) // it has been sent
	}
	err := do(ctx)
	if between != nil {
		between()
	}
	if becomes != nil {
		return fmt.Errorf("%w: %w", storage.ErrUncertain, becomes)
	}
	return err
}

func (p *process) read() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead {
		return storagetest.ErrDown
	}
	return nil
}

func (p *process) Get(ctx context.Context, key string) (storage.Item, error) {
	if err := p.read(); err != nil {
		return storage.Item{}, err
	}
	return p.Backend.Get(ctx, key)
}

func (p *process) GetMany(ctx context.Context, keys []string) ([]storage.Item, error) {
	if err := p.read(); err != nil {
		return nil, err
	}
	return p.Backend.GetMany(ctx, keys)
}

func (p *process) IndexPage(ctx context.Context, index, after string, limit int) ([]string, error) {
	if err := p.read(); err != nil {
		return nil, err
	}
	return p.Backend.IndexPage(ctx, index, after, limit)
}

// Put adds entries one by one if the change is watched, as in a cluster.
func (p *process) Put(ctx context.Context, put storage.Put) (item storage.Item, err error) {
	if ctx.Value(isWatched{}) != nil {
		for _, l := range put.Listed {
			if err := p.IndexAdd(ctx, l.Index, l.Entry); err != nil {
				return storage.Item{}, err
			}
		}
		put.Listed = nil
	}
	err = p.change(ctx, func(ctx context.Context) (err error) {
		item, err = p.Backend.Put(ctx, put)
		return err
	})
	if errors.Is(err, storage.ErrUncertain) {
		item = storage.Item{}
	}
	p.mu.Lock()
	hook := p.puts[put.Key]
	p.mu.Unlock()
	if hook != nil {
		hook()
	}
	return item, err
}

func (p *process) IndexAdd(ctx context.Context, index, entry string) error {
	return p.change(ctx, func(ctx context.Context) error { return p.Backend.IndexAdd(ctx, index, entry) })
}

func (p *process) IndexRemove(ctx context.Context, index, entry string) error {
	return p.change(ctx, func(ctx context.Context) error { return p.Backend.IndexRemove(ctx, index, entry) })
}

func (p *process) Delete(ctx context.Context, key string) error {
	return p.change(ctx, func(ctx context.Context) error { return p.Backend.Delete(ctx, key) })
}
