package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestPasswordsAreCheckedInAnotherProcess: after the first sign-in the server has a process for
// passwords, which has no environment and ends with the server.
func TestPasswordsAreCheckedInAnotherProcess(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("it looks at /proc")
	}
	server := startAuthz(t, nil, "--dev-resource", devResource)
	if got := childrenOf(t, server.cmd.Process.Pid); len(got) > 0 {
		t.Errorf("before anybody signs in there is %q", got)
	}
	newFlow(t, server, devResource)
	got := childrenOf(t, server.cmd.Process.Pid)
	if len(got) != 1 {
		t.Fatalf("processes for passwords: %q, want one", got)
	}
	for pid, arguments := range got {
		if !strings.HasSuffix(arguments, "\x00check-passwords\x00") {
			t.Errorf("the process runs %q", arguments)
		}
		server.Stop(t)
		for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
			if _, err := os.Stat(filepath.Join("/proc", pid)); err != nil {
				break
			}
			if time.Since(begin) > patience {
				t.Fatal("it is still there when the server is not")
			}
		}
	}
}

// childrenOf returns the processes that a process started, by their ids, with their arguments.
func childrenOf(t *testing.T, parent int) map[string]string {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	children := map[string]string{}
	for _, dir := range all {
		stat, err := os.ReadFile(filepath.Join(dir, "stat"))
		if err != nil {
			continue // it has ended
		}
		_, after, _ := strings.Cut(string(stat), ") ") // proc(5): the parent is field 4
		if fields := strings.Fields(after); len(fields) < 2 || fields[1] != fmt.Sprint(parent) {
			continue
		}
		if arguments, err := os.ReadFile(filepath.Join(dir, "cmdline")); err == nil {
			children[filepath.Base(dir)] = string(arguments)
		}
	}
	return children
}
