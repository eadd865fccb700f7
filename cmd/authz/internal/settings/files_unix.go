//go:build unix

package settings

import (
	"os"
	"syscall"
)

// openNow opens a file to read. A pipe is open at once, whether somebody writes to it or not.
func openNow(name string) (*os.File, error) {
	return os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
}
