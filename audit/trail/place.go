package trail

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// place is the right to write the file of a path. It is a lock on a file beside it, which nobody
// renames: a lock on the trail would move away with each rotation, and leave its path to anybody.
type place struct {
	path string   // of the lock
	file *os.File // that is locked
}

// lockAttempts bounds the attempts to lock a file that somebody removes at the same time.
const lockAttempts = 5

// takePlace locks the path of a file. The name of the lock is hidden, so that patterns for the files
// of a trail do not match it.
func takePlace(path string) (*place, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("trail: %s is not a regular file", path)
	}
	p := &place{path: filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".lock")}
	return p, p.take()
}

func (p *place) take() error {
	for range lockAttempts {
		file, err := openLocked(p.path)
		if err != nil {
			return err
		}
		if p.file = file; p.held() {
			return nil
		}
		_ = file.Close()
	}
	return fmt.Errorf("trail: somebody removes %s again and again", p.path)
}

// held reports whether the lock is still the file with its name.
func (p *place) held() bool {
	mine, err := p.file.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(p.path)
	return err == nil && os.SameFile(mine, there)
}

// keep takes the lock again if somebody removed it. The error wraps [ErrInUse] if another process
// was faster.
func (p *place) keep() error {
	if p.held() {
		return nil
	}
	old := p.file
	if err := p.take(); err != nil {
		p.file = old
		return err
	}
	return old.Close()
}

func openLocked(path string) (*os.File, error) {
	file, err := openLock(path)
	if errors.Is(err, ErrInUse) {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("trail: the file that locks the audit trail, which stays beside it: %w", err)
	}
	return file, nil
}
