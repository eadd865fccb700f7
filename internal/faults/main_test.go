//go:build e2e

package faults

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// long chooses the large numbers: go test -tags e2e ./internal/faults -faults.long
var long = flag.Bool("faults.long", false, "run the large numbers of races, kills and failovers")

// amount returns a number of repetitions, by the flag -faults.long.
func amount(short, large int) int {
	if *long {
		return large
	}
	return short
}

// patience bounds every wait in these tests. Without a fault of the program none is so long.
const patience = 30 * time.Second

// authzBinary is the command under test. TestMain builds it once.
var authzBinary string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if os.Getenv(floodEnv) != "" {
		return m.Run() // a process that floods needs no server of its own
	}
	dir, err := os.MkdirTemp("", "gatehouse-faults-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	authzBinary = filepath.Join(dir, "authz")
	if out, err := exec.Command("go", "build", "-o", authzBinary, "gatehouse.example/cmd/authz").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// crowd calls do(0) to do(n-1) from workers goroutines that all begin at once, and
// returns when every call has returned.
func crowd(workers, n int, do func(i int)) {
	begin := make(chan struct{})
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(workers, n) {
		wg.Go(func() {
			<-begin
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				do(i)
			}
		})
	}
	close(begin)
	wg.Wait()
}

// eventually repeats check until it returns nil. When the time is over, the test fails with its
// last error.
func eventually(t testing.TB, within time.Duration, check func() error) {
	t.Helper()
	deadline := time.Now().Add(within)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %s still: %v", within, err)
		}
		<-time.After(20 * time.Millisecond)
	}
}
