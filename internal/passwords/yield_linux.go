package passwords

import (
	"os"
	"strconv"
	"syscall"
)

// niceness is the priority of a worker: where processors are short it gets a tenth of the time
// of other processes.
const niceness = 10

// yieldToOthers lowers the priority of this process. On Linux each thread has its own priority,
// which the threads that it starts inherit.
func yieldToOthers() {
	for range 2 { // the second time for threads that started during the first
		threads, _ := os.ReadDir("/proc/self/task") // if that fails, checks run with normal priority
		for _, t := range threads {
			if id, err := strconv.Atoi(t.Name()); err == nil {
				_ = syscall.Setpriority(syscall.PRIO_PROCESS, id, niceness)
			}
		}
	}
}
