//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package trail

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// openLock opens a file, makes it if it does not exist, and locks it.
func openLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := lock(f); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// lock refuses a file that another process has locked. The lock ends with the file.
func lock(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return fmt.Errorf("%w: %s", ErrInUse, f.Name())
	}
	if err != nil {
		return fmt.Errorf("trail: %s cannot be locked: %w", f.Name(), err)
	}
	return nil
}
