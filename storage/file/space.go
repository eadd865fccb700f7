package file

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"os"
	"strings"
	"sync/atomic"
	"syscall"

	berrors "go.etcd.io/bbolt/errors"

	"gatehouse.example/storage"
)

// space is how much the disk of the file may still take. It is measured every second.
type space struct {
	path string
	free atomic.Int64 // bytes
	full atomic.Bool  // a write found no space since the last measurement
}

// With less than tightSpace free, new clients are refused; with less than lastSpace, all writes but
// those that remove something: they would only find out in the middle.
const (
	tightSpace = 64 << 20
	lastSpace  = 8 << 20
)

func (s *space) measure() {
	free, err := freeSpace(s.path)
	if err != nil {
		return // the next write tells what is wrong
	}
	if info, err := os.Stat(s.path); err == nil {
		free = min(free, maxSize-info.Size())
	}
	s.free.Store(free)
	s.full.Store(false)
}

// spaceOf returns how many bytes so many blocks of a size are. Some systems count the blocks that
// are kept for root as less than none.
func spaceOf(blocks int64, size uint64) int64 {
	if high, low := bits.Mul64(uint64(max(blocks, 0)), size); high == 0 {
		return int64(min(low, math.MaxInt64))
	}
	return math.MaxInt64
}

// noSpace reports whether an error means that the disk is full, a quota is used up, or the file is
// as large as it may be. bbolt keeps only the text of some errors.
func noSpace(err error) bool {
	for _, full := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG, berrors.ErrMaxSizeReached} {
		if errors.Is(err, full) || strings.HasSuffix(err.Error(), full.Error()) {
			return true
		}
	}
	return false
}

// refused records that a write found no space.
func (s *space) refused() { s.full.Store(true) }

func (s *space) refuses() error {
	if s.room() == storage.RoomNone {
		return fmt.Errorf("%w: the disk of %s has %d bytes left, and at least %d are needed", storage.ErrFull, s.path, s.free.Load(), lastSpace)
	}
	return nil
}

func (s *space) room() storage.Room {
	free := s.free.Load()
	switch {
	case s.full.Load() || free < lastSpace:
		return storage.RoomNone
	case free < tightSpace:
		return storage.RoomTight
	}
	return storage.RoomEnough
}

// Room returns how much room is left by the last measurement.
func (b *Backend) Room() storage.Room { return b.space.room() }
