package passwords

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A worker has no environment variables, which may hold secrets, and a low priority.
func TestWorkersStepBack(t *testing.T) {
	t.Setenv("AUTHZ_MASTER_KEY", "a secret")
	p := observed(t, ThisProgram)
	p.Check(hashOf(t, "right"), "right")
	dir := fmt.Sprintf("/proc/%d", p.commands[0].Process.Pid)
	environment, err := os.ReadFile(filepath.Join(dir, "environ"))
	if err != nil || len(environment) > 0 {
		t.Errorf("the environment is %q (%v), want none", environment, err)
	}
	threads, err := filepath.Glob(filepath.Join(dir, "task", "*", "stat"))
	if err != nil || len(threads) == 0 {
		t.Fatalf("no threads: %v", err)
	}
	for _, file := range threads {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		_, after, _ := strings.Cut(string(stat), ") ") // proc(5): field 3 follows the name, nice is field 19
		if fields := strings.Fields(after); fields[16] != fmt.Sprint(niceness) {
			t.Errorf("a thread has niceness %s, want %d", fields[16], niceness)
		}
	}
}
