package passwords

import (
	"os"
	"strconv"
	"syscall"
)

// niceness is how far the process steps back: where processors are short it gets a tenth of
// what others do.
const niceness = 10

// yieldToOthers lets every other process have a processor first. On Linux each thread has a
// priority of its own, which those that it starts take over.
func yieldToOthers() {
	for range 2 { // the second time finds those that began during the first
		threads, _ := os.ReadDir("/proc/self/task") // without it, checks are as right and less polite
		for _, t := range threads {
			if id, err := strconv.Atoi(t.Name()); err == nil {
				_ = syscall.Setpriority(syscall.PRIO_PROCESS, id, niceness)
			}
		}
	}
}
