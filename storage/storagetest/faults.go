package storagetest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"gatehouse.example/storage"
)

// ErrDown is the error of a backend that was switched off.
var ErrDown = errors.New("storagetest: the backend is down")

// Faults is a [storage.Backend] that passes every call on to another one and fails on command. It
// is safe for concurrent use.
type Faults struct {
	backend storage.Backend

	mu       sync.Mutex
	down     bool
	requests int // the number of writes whose request is to be lost
	replies  int // the number of writes whose reply is to be lost
	puts     int
	left     int    // the number of writes after which it goes down, 0 for none
	hook     func() // runs once, before the next Put
	lost     func() // runs once, after the next write whose request or reply was lost
	lineage  storage.Lineage
	room     storage.Room
}

// NewFaults returns a Faults over a backend.
func NewFaults(backend storage.Backend) *Faults { return &Faults{backend: backend} }

// SetDown makes every call fail with [ErrDown] and without effect, until it is called with false.
func (f *Faults) SetDown(down bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.down = down
}

// DownAfter lets n-1 more writes be, and is down from the nth on.
func (f *Faults) DownAfter(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.left = n
}

// SetRoom limits the room that Room returns. With [storage.RoomNone] every Put fails with
// [storage.ErrFull].
func (f *Faults) SetRoom(room storage.Room) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.room = room
}

// Room implements [storage.Backend].
func (f *Faults) Room() storage.Room {
	f.mu.Lock()
	defer f.mu.Unlock()
	return max(f.room, f.backend.Room())
}

func (f *Faults) full() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.room == storage.RoomNone
}

// LoseRequests makes the next n writes fail without effect, with the same error as a lost reply.
func (f *Faults) LoseRequests(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests = n
}

// LoseReplies applies the next n writes and fails as if the outcome were unknown.
func (f *Faults) LoseReplies(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.replies = n
}

// Puts returns the number of calls of Put.
func (f *Faults) Puts() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.puts
}

// fate is the outcome of one call.
type fate struct {
	before error // instead of the call
	after  error // instead of its result
}

func (f *Faults) read() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.down {
		return ErrDown
	}
	return nil
}

func (f *Faults) write() fate {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.down:
		return fate{before: ErrDown}
	case f.requests > 0:
		f.requests--
		return fate{before: fmt.Errorf("storagetest: %w: the request was lost", storage.ErrUncertain)}
	case f.replies > 0:
		f.replies--
		return fate{after: fmt.Errorf("storagetest: %w: the reply was lost", storage.ErrUncertain)}
	default:
		return fate{}
	}
}

// whenLost runs hook once, after the next write whose request or reply was lost.
func (f *Faults) whenLost(hook func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lost = hook
}

// runLost runs the hook of a lost write.
func (f *Faults) runLost() {
	f.mu.Lock()
	hook := f.lost
	f.lost = nil
	f.mu.Unlock()
	if hook != nil {
		hook()
	}
}

// beforePut runs hook once, before the next Put.
func (f *Faults) beforePut(hook func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hook = hook
}

func (f *Faults) countPut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.puts++
	if f.left > 0 {
		f.left--
		f.down = f.down || f.left == 0
	}
}

// runHook runs the hook between the entries of a Put and its item.
func (f *Faults) runHook(ctx context.Context, put *storage.Put) error {
	f.mu.Lock()
	hook := f.hook
	f.hook = nil
	f.mu.Unlock()
	if hook == nil {
		return nil
	}
	for _, l := range put.Listed {
		if err := f.backend.IndexAdd(ctx, l.Index, l.Entry); err != nil {
			return err
		}
	}
	put.Listed = nil
	hook()
	return nil
}

// do runs a write with its outcome.
func (f *Faults) do(call func() error) error {
	fate := f.write()
	if fate.before != nil {
		f.runLost()
		return fate.before
	}
	if err := call(); fate.after == nil {
		return err
	}
	f.runLost()
	return fate.after
}

// Get implements [storage.Backend].
func (f *Faults) Get(ctx context.Context, key string) (storage.Item, error) {
	if err := f.read(); err != nil {
		return storage.Item{}, err
	}
	return f.backend.Get(ctx, key)
}

// GetMany implements [storage.Backend].
func (f *Faults) GetMany(ctx context.Context, keys []string) ([]storage.Item, error) {
	if err := f.read(); err != nil {
		return nil, err
	}
	return f.backend.GetMany(ctx, keys)
}

// Put implements [storage.Backend].
func (f *Faults) Put(ctx context.Context, put storage.Put) (item storage.Item, err error) {
	if put.Confirmation {
		if !f.replicated() {
			return f.backend.Put(ctx, put)
		}
		put.Confirmation = false // another copy could take over, so it is sent
	}
	f.countPut()
	err = f.do(func() (err error) {
		if f.full() {
			return storage.ErrFull
		}
		if err := f.runHook(ctx, &put); err != nil {
			return err
		}
		if f.elsewhere(put.On) {
			item, err = f.repeated(ctx, put)
			return err
		}
		put.On = f.underneath(put.On)
		item, err = f.backend.Put(ctx, put)
		return err
	})
	if errors.Is(err, storage.ErrUncertain) {
		item = storage.Item{}
	}
	return item, err
}

func (f *Faults) replicated() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lineage != ""
}

// SetLineage lets another copy of the database take over, with the same contents.
func (f *Faults) SetLineage(l storage.Lineage) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lineage = l
}

func (f *Faults) elsewhere(on storage.Lineage) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lineage != "" && on != "" && on != f.lineage
}

// repeated answers a write for another lineage: it has happened before, or it is refused.
func (f *Faults) repeated(ctx context.Context, put storage.Put) (storage.Item, error) {
	item, err := f.backend.Get(ctx, put.Key)
	switch {
	case err == nil && item.Version == put.Operation:
		return item, nil
	case err == nil || errors.Is(err, storage.ErrNotFound):
		return storage.Item{}, storage.ErrLineage
	}
	return storage.Item{}, err
}

// underneath returns the lineage of the backend for a lineage of this Faults.
func (f *Faults) underneath(on storage.Lineage) storage.Lineage {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lineage != "" {
		return ""
	}
	return on
}

// Lineage implements [storage.Backend].
func (f *Faults) Lineage(ctx context.Context) (storage.Lineage, error) {
	if err := f.read(); err != nil {
		return "", err
	}
	f.mu.Lock()
	l := f.lineage
	f.mu.Unlock()
	if l != "" {
		return l, nil
	}
	return f.backend.Lineage(ctx)
}

// Delete implements [storage.Backend].
func (f *Faults) Delete(ctx context.Context, key string) error {
	return f.do(func() error { return f.backend.Delete(ctx, key) })
}

// IndexAdd implements [storage.Backend].
func (f *Faults) IndexAdd(ctx context.Context, index, entry string) error {
	return f.do(func() error { return f.backend.IndexAdd(ctx, index, entry) })
}

// IndexRemove implements [storage.Backend].
func (f *Faults) IndexRemove(ctx context.Context, index, entry string) error {
	return f.do(func() error { return f.backend.IndexRemove(ctx, index, entry) })
}

// IndexPage implements [storage.Backend].
func (f *Faults) IndexPage(ctx context.Context, index, after string, limit int) ([]string, error) {
	if err := f.read(); err != nil {
		return nil, err
	}
	return f.backend.IndexPage(ctx, index, after, limit)
}

// IndexPageBefore implements [storage.Backend].
func (f *Faults) IndexPageBefore(ctx context.Context, index, before string, limit int) ([]string, error) {
	if err := f.read(); err != nil {
		return nil, err
	}
	return f.backend.IndexPageBefore(ctx, index, before, limit)
}

// IndexLen implements [storage.Backend].
func (f *Faults) IndexLen(ctx context.Context, index string) (int, error) {
	if err := f.read(); err != nil {
		return 0, err
	}
	return f.backend.IndexLen(ctx, index)
}

// Count implements [storage.Backend]. It is none of the writes whose requests and replies are lost.
func (f *Faults) Count(ctx context.Context, c storage.Counting) (storage.Counted, error) {
	if err := f.read(); err != nil {
		return storage.Counted{}, err
	}
	return f.backend.Count(ctx, c)
}

// Close implements [storage.Backend].
func (f *Faults) Close() error { return f.backend.Close() }

// Scan implements [storage.Backend].
func (f *Faults) Scan(ctx context.Context, prefix, cursor string, limit int) ([]string, string, error) {
	if err := f.read(); err != nil {
		return nil, "", err
	}
	return f.backend.Scan(ctx, prefix, cursor, limit)
}
