//go:build unix

package owner

import (
	"io/fs"
	"syscall"
)

// Of returns the user to whom a file belongs, and false if that is not known.
func Of(info fs.FileInfo) (user int, known bool) {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(stat.Uid), true
	}
	return 0, false
}
