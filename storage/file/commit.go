package file

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"

	bolt "go.etcd.io/bbolt"

	"gatehouse.example/storage"
)

// committer runs changes one after the other. Those that wait at the same time share one
// transaction, and so one fsync.
type committer struct {
	backend *Backend
	waiting chan *change
	failed  atomic.Pointer[error] // the failure after which nothing is known about the disk
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
	return committer{backend: b, waiting: make(chan *change, maxWaiting)}
}

// errClosed is the error of a backend that was closed.
var errClosed = errors.New("storage/file: the file is closed")

// change makes one change and returns when it is on the disk. The error wraps
// [storage.ErrUncertain] if ctx ended after the change was begun, or if the transaction failed in a
// way that may have left it on the disk.
func (b *Backend) change(ctx context.Context, do func(tx *bolt.Tx) error) error {
	if err := b.committer.failure(); err != nil {
		return err
	}
	c := &change{do: do, done: make(chan error, 1)}
	select {
	case b.committer.waiting <- c:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-c.done:
		return err
	case <-ctx.Done():
		if c.state.CompareAndSwap(changeWaits, changeAbandoned) {
			return ctx.Err()
		}
		return fmt.Errorf("%w: %w", storage.ErrUncertain, ctx.Err())
	}
}

func (c *committer) failure() error {
	if err := c.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// run makes changes until ctx ends.
func (c *committer) run(ctx context.Context) {
	for {
		select {
		case first := <-c.waiting:
			c.together(first)
		case <-ctx.Done():
			c.refuse(errClosed)
			return
		}
	}
}

// refuse answers everything that waits with an error.
func (c *committer) refuse(err error) {
	failed := err
	c.failed.CompareAndSwap(nil, &failed)
	for {
		select {
		case w := <-c.waiting:
			w.done <- err
		default:
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
	err := c.failure()
	if err == nil {
		err = c.commit(batch)
	}
	if len(batch) > 1 && err != nil && c.failure() == nil {
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
	b := c.backend
	if err := b.space.refuses(); err != nil {
		return err
	}
	if err := b.readers.begin(); err != nil {
		return b.named(err)
	}
	begun := false // whether writing to the file may have begun
	err := guarded(func() error {
		return b.db.Update(func(tx *bolt.Tx) error {
			begun = false
			for _, one := range batch {
				if err := one.do(tx); err != nil {
					return err
				}
			}
			begun = true
			return nil
		})
	})
	b.readers.end(err == nil)
	if err == nil || !begun {
		return b.named(err)
	}
	return c.failedCommit(err)
}

// failedCommit judges the failure of a commit. Without space nothing was committed: bbolt writes the
// new state to free pages first and its root last, into a page that exists. After any other failure
// the disk may hold the old state or the new one, whatever a later read returns.
func (c *committer) failedCommit(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		c.backend.space.refused()
		return fmt.Errorf("%w: %w", storage.ErrFull, c.backend.named(err))
	}
	failed := fmt.Errorf("%w: the file is not used any more until it is opened again: a write failed: %w", storage.ErrUncertain, c.backend.named(err))
	c.failed.CompareAndSwap(nil, &failed)
	return failed
}
