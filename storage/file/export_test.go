package file

import (
	"context"

	bolt "go.etcd.io/bbolt"
)

// Housekeep does once what is done in the background every second.
func (b *Backend) Housekeep(ctx context.Context) { b.housekeep(ctx) }

// NoHousekeeping keeps what is done in the background from being done until goOn is called.
func (b *Backend) NoHousekeeping() (goOn func()) {
	b.chores.Lock()
	return b.chores.Unlock
}

// SweepStep is how many items that are over are removed in one transaction.
const SweepStep = sweepStep

// CheckPlace returns what is wrong with what is under a path.
func CheckPlace(path string) error { return checkPlace(path) }

// SpaceOf returns how many bytes so many blocks are.
func SpaceOf(blocks int64, size uint64) int64 { return spaceOf(blocks, size) }

// MaxSize is the size up to which a file may grow.
const MaxSize = maxSize

// CloseInRead is [Backend.Close] with a read that ends in the middle of it. It returns the error
// that another read gets meanwhile.
func (b *Backend) CloseInRead(ctx context.Context) (next, err error) {
	tx, err := b.readers.take(ctx)
	if err != nil {
		return nil, err
	}
	b.stop()
	b.stopped.Wait()
	b.readers.close()
	_, next = b.Get(ctx, "key")
	b.readers.give(tx)
	return next, b.db.Close()
}

// Closing is closed when the backend begins to close.
func (b *Backend) Closing() <-chan struct{} { return b.ctx.Done() }

// Hold makes a change that changes nothing and lasts until goOn is closed; begun is closed when it began.
func (b *Backend) Hold(ctx context.Context, begun, goOn chan struct{}) error {
	return b.change(ctx, func(*bolt.Tx) error {
		close(begun)
		<-goOn
		return nil
	})
}

// Waiting returns how many changes wait for the one under way.
func (b *Backend) Waiting() int { return len(b.committer.waiting) }
