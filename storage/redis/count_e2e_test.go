//go:build e2e

package redis_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gatehouse.example/storage"
	"gatehouse.example/storage/redis"
	"gatehouse.example/storage/redis/redistest"
)

// storeAt opens a store as a process of its own would.
func storeAt(t *testing.T, url string) *storage.Store {
	t.Helper()
	b := open(t, redis.Options{URL: url})
	t.Cleanup(func() { _ = b.Close() })
	store, err := storage.New(b, storage.Options{Issuer: "https://auth.example.com", MasterKeys: [][]byte{make([]byte, 32)}, WriteTime: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// TestTwoProcessesCountTogether: of operations that two processes send to one server at the same time
// exactly as many are done as fit, and the value has a constant size and no network in it.
func TestTwoProcessesCountTogether(t *testing.T) {
	t.Parallel()
	const fits, each = 30, 40
	server := redistest.Start(t, redistest.Config{})
	stores := []*storage.Store{storeAt(t, server.URL()), storeAt(t, server.URL())}
	unit := storage.CountMost / fits
	var all sync.WaitGroup
	var mu sync.Mutex
	begin, done := make(chan struct{}), 0
	for i := range 2 * each {
		all.Go(func() {
			<-begin
			counted, err := stores[i%2].Count(t.Context(), storage.Counting{Pool: "test", Counts: []storage.Count{
				{Area: storage.CountAreas - 1, Name: "from 192.0.2.0/24", Per: storage.CountMost, Need: unit, Spend: unit},
			}})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			if counted.Done {
				done++
			}
		})
	}
	close(begin)
	all.Wait()
	if done != fits {
		t.Errorf("%d operations were done, want %d", done, fits)
	}
	keys, err := server.Client().Keys(t.Context(), "*").Result()
	if err != nil || !slices.Equal(keys, []string{"gatehouse:counts:test"}) {
		t.Fatalf("the keys are %q, %v", keys, err)
	}
	value, err := server.Client().Get(t.Context(), keys[0]).Result()
	if err != nil || len(value) > 3<<20 || strings.Contains(value, "192.0.2") {
		t.Errorf("the value has %d bytes, %v", len(value), err)
	}
}

// TestCountsAreThoseOfTheModel: random operations have the same outcome in the server as in memory.
func TestCountsAreThoseOfTheModel(t *testing.T) {
	t.Parallel()
	b := open(t, redis.Options{URL: redistest.Start(t, redistest.Config{}).URL()})
	model := storage.NewPools(time.Now)
	random := rand.New(rand.NewPCG(3, 4))
	const unit = 2 * time.Minute
	times := func(n int) time.Duration { return time.Duration(random.IntN(n)) * unit }
	for i := range 400 {
		c := storage.Counting{Pool: "test"}
		for range 1 + random.IntN(5) {
			count := storage.Count{Area: random.IntN(2), Name: fmt.Sprint("count ", random.IntN(4)), Per: storage.CountMost, Need: times(6), Spend: times(6)}
			if random.IntN(3) == 0 {
				count.Per = storage.CountMost / 3
			}
			if random.IntN(3) == 0 {
				count.Need, count.Spend = 0, -times(12)
			}
			c.Counts = append(c.Counts, count)
		}
		want := model.Count(c)
		got, err := b.Count(t.Context(), c)
		if err != nil || got.Done != want.Done {
			t.Fatalf("operation %d, %+v: %+v, %v, want %+v", i, c, got, err, want)
		}
		for k := range want.Owed {
			if d := got.Owed[k] - want.Owed[k]; d.Abs() > unit/2 {
				t.Fatalf("operation %d, %+v: count %d owes %s, want %s", i, c, k, got.Owed[k], want.Owed[k])
			}
		}
	}
}

// TestClockOfTheServerSetBack: what owes more than can be owed was counted before the clock was set
// back, and is forgotten.
func TestClockOfTheServerSetBack(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Config{})
	b := open(t, redis.Options{URL: server.URL()})
	take := storage.Counting{Pool: "test", Counts: []storage.Count{{Name: "a", Per: time.Hour, Need: time.Hour, Spend: time.Hour}}}
	for i, want := range []bool{true, false} {
		if counted, err := b.Count(t.Context(), take); err != nil || counted.Done != want {
			t.Fatalf("operation %d: %+v, %v", i, counted, err)
		}
	}
	value := strings.Repeat(string(sevenBytes(time.Now().Add(2*time.Hour))), 3*(1<<15))
	if err := server.Client().Set(t.Context(), "gatehouse:counts:test", value, 0).Err(); err != nil {
		t.Fatal(err)
	}
	if counted, err := b.Count(t.Context(), take); err != nil || !counted.Done {
		t.Errorf("after the clock was set back: %+v, %v", counted, err)
	}
}

// sevenBytes is a time as a pool has it.
func sevenBytes(at time.Time) []byte {
	out, us := make([]byte, 7), at.UnixMicro()
	for i := range out {
		out[6-i] = byte(us >> (8 * i))
	}
	return out
}
