package file

import (
	"context"

	"gatehouse.example/storage"
)

// Count does one operation on counts; see [storage.Backend]. They are in the memory of the process
// that has the file open, which all others ask, and are forgotten when it ends: to write them would
// cost an fsync for each attempt to sign in.
func (b *Backend) Count(ctx context.Context, c storage.Counting) (storage.Counted, error) {
	if err := ctx.Err(); err != nil {
		return storage.Counted{}, err
	}
	if err := b.committer.failure(); err != nil {
		return storage.Counted{}, err
	}
	return b.pools.Count(c), nil
}
