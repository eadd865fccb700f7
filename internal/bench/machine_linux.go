package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// cores returns the cores for the servers and for the generator, and false if there are not two.
func cores() (servers, generator int, ok bool) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return -1, -1, false
	}
	found := []int{}
	for i := 0; i < 1024 && len(found) < 2; i++ {
		if set.IsSet(i) {
			found = append(found, i)
		}
	}
	if len(found) < 2 {
		return -1, -1, false
	}
	return found[0], found[1], true
}

// pinSelf moves all threads of this process to one core.
func pinSelf(core int) error {
	runtime.GOMAXPROCS(1)
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return err
	}
	for _, thread := range threads {
		id, err := strconv.Atoi(thread.Name())
		if err != nil {
			return err
		}
		if err := affinity(id, core); err != nil {
			return err
		}
	}
	return nil
}

func affinity(thread, core int) error {
	var set unix.CPUSet
	set.Set(core)
	return unix.SchedSetaffinity(thread, &set)
}

// startOn starts a command on a core: a child has the affinity of the thread that makes it.
func startOn(core int, cmd *exec.Cmd) error {
	if core < 0 {
		return cmd.Start()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return err
	}
	if err := affinity(0, core); err != nil {
		return err
	}
	err := cmd.Start()
	if back := unix.SchedSetaffinity(0, &before); err == nil {
		err = back
	}
	return err
}

// processorTime is what a process has used so far, user and system together, to the nanosecond:
// the clock of a process that clock_getcpuclockid(3) names.
func processorTime(pid int) (time.Duration, error) {
	var t unix.Timespec
	const scheduler = 2
	if err := unix.ClockGettime(int32(^pid<<3|scheduler), &t); err != nil {
		return 0, fmt.Errorf("processor time of %d: %w", pid, err)
	}
	return time.Duration(t.Nano()), nil
}
