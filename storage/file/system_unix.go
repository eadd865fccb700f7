//go:build linux || darwin || freebsd

package file

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
)

// supported returns an error on a system that has no stores in files.
func supported() error { return nil }

// withoutWaiting keeps a fifo from hanging when it is opened.
const withoutWaiting = syscall.O_NONBLOCK

// tryLock locks a file for this process, or for all that only read it. It returns false if another
// process has a lock in the way.
func tryLock(opened *os.File, shared bool) (locked bool, err error) {
	how := syscall.LOCK_EX
	if shared {
		how = syscall.LOCK_SH
	}
	err = syscall.Flock(int(opened.Fd()), how|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, syscall.EINTR) {
		return false, nil
	}
	return err == nil, err
}

// freeSpace returns how many bytes the disk of a file has left for this process. That of a symbolic
// link is where the file is; that of a file which is not there yet is where its folder is.
func freeSpace(path string) (int64, error) {
	var disk syscall.Statfs_t
	err := syscall.Statfs(path, &disk)
	if errors.Is(err, syscall.ENOENT) {
		err = syscall.Statfs(filepath.Dir(path), &disk)
	}
	if err != nil {
		return 0, err
	}
	return spaceOf(int64(disk.Bavail), uint64(disk.Bsize)), nil
}
