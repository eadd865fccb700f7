//go:build !linux && !darwin && !freebsd

package file

import (
	"errors"
	"fmt"
	"os"
)

// supported returns an error on a system that has no stores in files: this one does not lock files
// and report space as it is needed here, and nothing was tried on it.
func supported() error {
	return fmt.Errorf("storage/file: a store in a file needs Linux, macOS or FreeBSD: %w", errors.ErrUnsupported)
}

const withoutWaiting = 0

func tryLock(*os.File, bool) (bool, error) { return false, supported() }

func freeSpace(string) (int64, error) { return 0, supported() }
