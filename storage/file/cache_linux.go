package file

import (
	"os"

	"golang.org/x/sys/unix"
)

// forgetCache asks the system to read the file from the disk again. After a failed fsync its memory
// may have what the disk never got.
func forgetCache(opened *os.File) {
	_ = unix.Fadvise(int(opened.Fd()), 0, 0, unix.FADV_DONTNEED)
}
