package file

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
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

// freeSpace returns how many bytes the disk of a file has left for this process.
func freeSpace(path string) (int64, error) {
	var disk syscall.Statfs_t
	if err := syscall.Statfs(filepath.Dir(path), &disk); err != nil {
		return 0, err
	}
	return int64(min(uint64(disk.Bavail)*uint64(disk.Bsize), 1<<62)), nil
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
