package file

import "context"

// Housekeep does once what is done in the background every second.
func (b *Backend) Housekeep(ctx context.Context) { b.housekeep(ctx) }

// CheckPlace returns what is wrong with what is under a path.
func CheckPlace(path string) error { return checkPlace(path) }

// SpaceOf returns how many bytes so many blocks are.
func SpaceOf(blocks int64, size uint64) int64 { return spaceOf(blocks, size) }

// MaxSize is the size up to which a file may grow.
const MaxSize = maxSize
