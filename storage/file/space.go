package file

import (
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"

	"gatehouse.example/storage"
)

// space is how much the disk of the file may still take. It is measured every second.
type space struct {
	path string
	free atomic.Int64 // bytes
	full atomic.Bool  // a write found no space since the last measurement
}

// With less than tightSpace free, new clients are refused; with less than lastSpace, all writes:
// they would only find out in the middle.
const (
	tightSpace = 64 << 20
	lastSpace  = 8 << 20
)

func (s *space) measure() {
	var disk syscall.Statfs_t
	if err := syscall.Statfs(filepath.Dir(s.path), &disk); err != nil {
		return // the next write tells what is wrong
	}
	free := int64(min(disk.Bavail*uint64(disk.Bsize), 1<<62))
	if info, err := os.Stat(s.path); err == nil {
		free = min(free, maxSize-info.Size())
	}
	s.free.Store(free)
	s.full.Store(false)
}

// refused records that a write found no space.
func (s *space) refused() { s.full.Store(true) }

func (s *space) refuses() error {
	if s.room() == storage.RoomNone {
		return fmt.Errorf("%w: the disk of %s has %d bytes left", storage.ErrFull, s.path, s.free.Load())
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
