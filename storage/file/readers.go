package file

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	bolt "go.etcd.io/bbolt"
)

// readers gives out read transactions. bbolt shows a new state to readers before it is known to be
// on the disk. So while a commit is under way, reads use transactions that were begun before.
type readers struct {
	db   *bolt.DB
	lost func(error)  // told that the file cannot be read at all
	gone *atomic.Bool // set then

	mu         sync.Mutex
	free       []*bolt.Tx    // of the state that is on the disk
	generation int           // counts the states
	committing chan struct{} // closed at the end of the commit; nil if none is under way
	closed     bool          // bbolt waits for the transactions that were given out
}

// keptReaders is how many transactions are ready when a commit begins. Reads beyond that number
// wait for the end of the commit. Each is short, so a transaction of an old state, whose pages
// cannot be used again, is never held for long.
const keptReaders = 16

// reader is a read transaction of one state.
type reader struct {
	*bolt.Tx
	generation int
}

// read begins a transaction. If the beginning of the file cannot be read any more, bbolt panics
// while it holds locks, so that nothing else may be asked of it.
func (r *readers) read() (tx *bolt.Tx, err error) {
	err = guarded(func() (err error) {
		tx, err = r.db.Begin(false)
		return err
	})
	if errors.Is(err, ErrDamaged) {
		r.lost(err)
	}
	return tx, err
}

// take returns a transaction, or the error of ctx.
func (r *readers) take(ctx context.Context) (reader, error) {
	for {
		tx, wait, err := r.next()
		if wait == nil {
			return tx, err
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return reader{}, ctx.Err()
		}
	}
}

// next returns a transaction, or what to wait for.
func (r *readers) next() (reader, <-chan struct{}, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return reader{}, nil, errClosed
	}
	if n := len(r.free); n > 0 {
		tx := r.free[n-1]
		r.free = r.free[:n-1]
		return reader{tx, r.generation}, nil, nil
	}
	if r.committing != nil {
		return reader{}, r.committing, nil
	}
	tx, err := r.read()
	return reader{tx, r.generation}, nil, err
}

// give returns a transaction. It is used again while its state is the last one.
func (r *readers) give(tx reader) {
	r.mu.Lock()
	if !r.closed && tx.generation == r.generation && len(r.free) < keptReaders {
		r.free = append(r.free, tx.Tx)
		tx.Tx = nil
	}
	r.mu.Unlock()
	if tx.Tx != nil && !r.gone.Load() {
		_ = tx.Rollback()
	}
}

// begin prepares for a commit: from now on, no transaction is begun. It returns the number of the
// state that is on the disk.
func (r *readers) begin() (state int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.free) < keptReaders {
		tx, err := r.read()
		if err != nil {
			return 0, err
		}
		r.free = append(r.free, tx)
	}
	r.committing = make(chan struct{})
	return r.free[0].ID(), nil
}

// newest returns the number of the state that bbolt shows, on the disk or not, and how much of the
// file it takes in bytes.
func (r *readers) newest() (state int, size int64, err error) {
	tx, err := r.read()
	if err != nil {
		return 0, 0, err
	}
	defer tx.Rollback()
	return tx.ID(), tx.Size(), nil
}

// end ends a commit. With changed, the state before it is no longer given out.
func (r *readers) end(changed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.committing)
	r.committing = nil
	if changed {
		r.generation++
		r.drop()
	}
}

func (r *readers) drop() {
	for _, tx := range r.free {
		_ = tx.Rollback()
	}
	r.free = nil
}

func (r *readers) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	r.drop()
}
