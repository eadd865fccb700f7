package main

import (
	"bytes"
	"io/fs"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
)

// garbagePercent is GOGC of a server, if the operator did not set one: garbage is collected when there
// is four times as much as memory in use. With the usual 100, collecting takes a tenth more processor
// time, because a server keeps little and makes much garbage.
const garbagePercent = 400

// collectSeldom sets how a server that begins to answer collects garbage. What the operator set in
// GOGC and GOMEMLIMIT stays. A process that may not have all the memory of its machine has a soft
// limit of three quarters of what it may have, near which it collects more often; the rest is for the
// processes that check passwords.
func collectSeldom() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbagePercent)
	}
	if limit := memoryOfGroup(os.DirFS("/")); limit > 0 && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(limit / 4 * 3)
	}
}

// memoryOfGroup returns how much memory the control group of this process may use, in bytes, 0 if
// there is no limit or another system (control groups of Linux, version 2): the least of the limits of
// the group and those around it.
func memoryOfGroup(root fs.FS) (least int64) {
	groups, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(groups)) {
		group, found := strings.CutPrefix(strings.TrimSpace(line), "0::")
		for found {
			limit := memoryMax(root, group)
			if limit > 0 && (least == 0 || limit < least) {
				least = limit
			}
			found = strings.Trim(group, "/.") != ""
			group = path.Dir(group)
		}
	}
	return least
}

// memoryMax returns the limit of one control group, 0 for none.
func memoryMax(root fs.FS, group string) int64 {
	text, err := fs.ReadFile(root, path.Join("sys/fs/cgroup", path.Clean("/"+group), "memory.max"))
	if err != nil {
		return 0
	}
	limit, err := strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64)
	if err != nil {
		return 0 // "max" is no limit
	}
	return limit
}
