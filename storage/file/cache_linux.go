package file

import (
	"os"
	"syscall"
)

// forgetCache asks the system to read the file from the disk again. After a failed fsync its memory
// may have what the disk never got.
func forgetCache(opened *os.File) {
	const dontNeed = 4 // POSIX_FADV_DONTNEED
	_, _, _ = syscall.Syscall6(syscall.SYS_FADVISE64, opened.Fd(), 0, 0, dontNeed, 0, 0)
}
