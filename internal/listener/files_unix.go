//go:build unix

package listener

import "syscall"

// openFiles returns the number of files that the process may open, 0 if it is not known.
func openFiles() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	return int(min(uint64(limit.Cur), 1<<30))
}
