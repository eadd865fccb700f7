package file

import (
	"context"
	"sync"

	bolt "go.etcd.io/bbolt"
)

// readers gives out read transactions. bbolt shows a new state to readers before it is known to be
// on the disk. So while a commit is under way, reads use transactions that were begun before.
type readers struct {
	db *bolt.DB

	mu         sync.Mutex
	free       []*bolt.Tx    // of the state that is on the disk
	generation int           // counts the states
	committing chan struct{} // closed at the end of the commit; nil if none is under way
}

// keptReaders is how many transactions are ready when a commit begins. Reads beyond that number
// wait for the end of the commit.
const keptReaders = 16

func (r *readers) open(db *bolt.DB) { r.db = db }

// reader is a read transaction of one state.
type reader struct {
	*bolt.Tx
	generation int
}

// take returns a transaction, or the error of ctx.
func (r *readers) take(ctx context.Context) (reader, error) {
	for {
		r.mu.Lock()
		if n := len(r.free); n > 0 {
			tx := r.free[n-1]
			r.free = r.free[:n-1]
			defer r.mu.Unlock()
			return reader{tx, r.generation}, nil
		}
		wait := r.committing
		if wait == nil {
			defer r.mu.Unlock()
			tx, err := r.db.Begin(false)
			return reader{tx, r.generation}, err
		}
		r.mu.Unlock()
		select {
		case <-wait:
		case <-ctx.Done():
			return reader{}, ctx.Err()
		}
	}
}

// give returns a transaction. It is used again while its state is the last one.
func (r *readers) give(tx reader) {
	r.mu.Lock()
	if tx.generation == r.generation && len(r.free) < keptReaders {
		r.free = append(r.free, tx.Tx)
		tx.Tx = nil
	}
	r.mu.Unlock()
	if tx.Tx != nil {
		_ = tx.Rollback()
	}
}

// begin prepares for a commit: from now on, no transaction is begun.
func (r *readers) begin() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.free) < keptReaders {
		tx, err := r.db.Begin(false)
		if err != nil {
			return err
		}
		r.free = append(r.free, tx)
	}
	r.committing = make(chan struct{})
	return nil
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
	r.drop()
}
