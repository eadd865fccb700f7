package file

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	bolt "go.etcd.io/bbolt"

	"gatehouse.example/storage"
)

// committer runs changes one after the other. Those that wait at the same time share one
// transaction, and so one fsync.
type committer struct {
	backend *Backend
	waiting chan *change
	ended   chan struct{} // closed when no change is made any more
	failed  atomic.Pointer[error]
	broken  atomic.Bool // bbolt panicked while it held locks: it must not be called
}

// change is something that is done in a transaction.
type change struct {
	// do makes the change. An error undoes the changes of all that share the transaction, so a
	// refusal is not an error but a result that do keeps.
	do    func(tx *bolt.Tx) error
	state atomic.Int32
	done  chan error
}

// The states of a change.
const (
	changeWaits     = iota
	changeRuns      // its outcome will be known
	changeAbandoned // nobody waits any more, and it was not begun
)

// maxTogether is the greatest number of changes in one transaction, maxWaiting that of changes that
// wait without waiting for a place.
const (
	maxTogether = 256
	maxWaiting  = 1024
)

func newCommitter(b *Backend) committer {
	return committer{backend: b, waiting: make(chan *change, maxWaiting), ended: make(chan struct{})}
}

// errClosed is the error of a backend that was closed.
var errClosed = fmt.Errorf("%w: storage/file: the file is closed", storage.ErrUnavailable)

// change makes one change and returns when it is on the disk. The error wraps
// [storage.ErrUncertain] if ctx ended after the change was begun, or if the transaction failed in a
// way that may have left it on the disk. With any other error the change was not made.
func (b *Backend) change(ctx context.Context, do func(tx *bolt.Tx) error) error {
	if err := b.space.refuses(); err != nil {
		return err
	}
	return b.changeAnyway(ctx, do)
}

// changeAnyway is change for what makes room in the file: it is tried on a full disk too.
func (b *Backend) changeAnyway(ctx context.Context, do func(tx *bolt.Tx) error) error {
	if err := b.committer.failure(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil { // below it would be chance whether the change is begun
		return err
	}
	c := &change{do: do, done: make(chan error, 1)}
	select {
	case b.committer.waiting <- c:
	case <-ctx.Done():
		return ctx.Err()
	case <-b.committer.ended:
		return errClosed
	}
	select {
	case err := <-c.done:
		return err
	case <-ctx.Done():
		if c.state.CompareAndSwap(changeWaits, changeAbandoned) {
			return ctx.Err()
		}
		return fmt.Errorf("%w: %w", storage.ErrUncertain, ctx.Err())
	case <-b.committer.ended:
		if c.state.CompareAndSwap(changeWaits, changeAbandoned) {
			return errClosed
		}
		return <-c.done // every change that was begun has its answer
	}
}

// failure returns why nothing may be read or written any more, or nil.
func (c *committer) failure() error {
	if err := c.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// fail refuses everything from now on. The first reason is kept.
func (c *committer) fail(reason error) {
	err := fmt.Errorf("%w: the file is not used any more until it is opened again: %w", storage.ErrUnavailable, c.backend.named(reason))
	c.failed.CompareAndSwap(nil, &err)
}

// lost refuses everything from now on, also to bbolt.
func (c *committer) lost(reason error) {
	c.broken.Store(true)
	c.fail(reason)
}

// run makes changes until ctx ends.
func (c *committer) run(ctx context.Context) {
	defer close(c.ended)
	for {
		select {
		case first := <-c.waiting:
			c.together(first)
		case <-ctx.Done():
			return
		}
	}
}

// together makes a change and those that wait by then.
func (c *committer) together(first *change) {
	batch := c.collect(first)
	if len(batch) == 0 {
		return
	}
	err := c.commit(batch)
	if len(batch) > 1 && err != nil && !errors.Is(err, storage.ErrFull) && c.failure() == nil {
		// One of them may have caused it: each is tried alone.
		for _, one := range batch {
			one.done <- c.commit([]*change{one})
		}
		return
	}
	for _, one := range batch {
		one.done <- err
	}
}

func (c *committer) collect(first *change) (batch []*change) {
	for next := first; ; {
		if next.state.CompareAndSwap(changeWaits, changeRuns) {
			batch = append(batch, next)
		}
		if len(batch) == maxTogether {
			return batch
		}
		select {
		case next = <-c.waiting:
		default:
			return batch
		}
	}
}

// commit makes changes in one transaction.
func (c *committer) commit(batch []*change) error {
	if err := c.failure(); err != nil {
		return err
	}
	b := c.backend
	before, err := b.readers.begin()
	if err != nil {
		return b.named(err)
	}
	var refused error // by a change, so that nothing was written
	err = guarded(func() error {
		return b.db.Update(func(tx *bolt.Tx) error {
			for _, one := range batch {
				if refused = guarded(func() error { return one.do(tx) }); refused != nil {
					return refused
				}
			}
			return nil
		})
	})
	if err != nil && err == refused {
		err = b.named(err)
	} else if err != nil {
		err = c.judge(err, before) // before anybody reads again
	}
	b.readers.end(err == nil)
	return err
}

// judge decides what the failure of a commit means, where before is the number of the state that is
// on the disk. Without space, and with the same state as before in memory, nothing was committed:
// bbolt writes a new state to free pages first, and its root only when those are on the disk. After
// any other failure the disk may hold the old state or the new one, whatever a later read returns.
func (c *committer) judge(err error, before int) error {
	if errors.Is(err, ErrDamaged) { // bbolt panicked
		c.lost(err)
	} else if now, size, unknown := c.backend.readers.newest(); unknown == nil && now == before && noSpace(err) {
		c.backend.space.refused()
		_ = c.backend.opened.Truncate(size) // gives back what was written in vain
		return fmt.Errorf("%w: %w", storage.ErrFull, c.backend.named(err))
	}
	c.fail(fmt.Errorf("a write failed: %w", err))
	return fmt.Errorf("%w: %w", storage.ErrUncertain, c.failure())
}
