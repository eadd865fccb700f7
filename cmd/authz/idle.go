package main

import (
	"context"
	"os"
	"runtime/debug"
	"time"
)

// settledAfter is how long after a server begins to answer it gives back what only its start needed.
const settledAfter = 500 * time.Millisecond

// giveBack returns the memory of the start to the system: most of it is garbage that would stay until
// four times as much is in use (see garbagePercent), and pages of the program that run once. It waits
// until the server has begun to answer, and returns at the end of ctx.
func giveBack(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-time.After(settledAfter):
	}
	debug.FreeOSMemory()
	if mappings, err := os.ReadFile("/proc/self/smaps"); err == nil {
		releaseProgram(unchangedPages(string(mappings)))
	}
}
