package local

import (
	"os"
	"strconv"
)

// shortcut returns another path of a folder that is open, as long as it is open (proc(5)).
func shortcut(folder *os.File) string {
	return "/proc/self/fd/" + strconv.Itoa(int(folder.Fd()))
}
