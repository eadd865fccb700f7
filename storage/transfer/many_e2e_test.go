//go:build e2e

package transfer_test

import (
	"flag"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"gatehouse.example/storage"
	"gatehouse.example/storage/redis/redistest"
	"gatehouse.example/storage/transfer"
)

var many = flag.Int("transfer.many", 0, "how many grants TestManyRecords copies")

// TestManyRecords measures how long a copy to a server that syncs each write, and back, takes, and how
// much memory of the process.
func TestManyRecords(t *testing.T) {
	if *many == 0 {
		t.Skip("for measurements: set -transfer.many 100000")
	}
	from, through, to := openFile(t, now), openURL(t, redistest.Start(t, redistest.Config{Persistent: true}).URL()), openFile(t, now)
	s := newStore(t, from, records())
	var making sync.WaitGroup
	for worker := range 256 {
		making.Go(func() {
			for i := range *many / 256 {
				redeem(t, s, newGrantOf(t, s, fmt.Sprint(worker, i%100)), storage.Lifetime{Expires: now().Add(24 * time.Hour), AccessUntil: now().Add(time.Hour)})
			}
		})
	}
	making.Wait()
	measured(t, "to Redis", between(from, through))
	measured(t, "to a file", between(through, to))
}

func measured(t *testing.T, what string, o transfer.Options) {
	t.Helper()
	most := uint64(0)
	began := map[transfer.Stage]time.Time{}
	o.Progress = func(p transfer.Progress) {
		if began[p.Stage].IsZero() {
			began[p.Stage] = time.Now()
		}
		if p.Done%5000 == 0 {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			most = max(most, m.HeapAlloc)
		}
	}
	begin := time.Now()
	done := mustCopy(t, o)
	t.Logf("%s: %d grants and %d entries in %v: counted after %v, copied after %v; heap %d MB at most", what, done.Records["grant"].Count,
		done.Lists["user-grants"].Count+done.Lists["client-grants"].Count, time.Since(begin).Round(time.Millisecond),
		began[transfer.Copying].Sub(begin).Round(time.Millisecond), began[transfer.Checking].Sub(begin).Round(time.Millisecond), most>>20)
}
