//go:build e2e

package redis_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"gatehouse.example/storage"
	"gatehouse.example/storage/redis"
	"gatehouse.example/storage/redis/redistest"
)

// processorTime returns the time that this process and a server have used.
func processorTime(b *testing.B, server *goredis.Client) (own, its time.Duration) {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	own = time.Duration(used.Utime.Nano() + used.Stime.Nano())
	info, err := server.Info(b.Context(), "cpu").Result()
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(info) {
		for _, name := range []string{"used_cpu_sys:", "used_cpu_user:"} {
			if text, ok := strings.CutPrefix(line, name); ok {
				seconds, _ := strconv.ParseFloat(strings.TrimSpace(text), 64)
				its += time.Duration(seconds * float64(time.Second))
			}
		}
	}
	return own, its
}

// BenchmarkShared measures the processor time of a read and of a conditional write of 700 bytes,
// here and in the server, with different numbers of callers at once.
func BenchmarkShared(b *testing.B) {
	for _, durable := range []bool{false, true} {
		server := redistest.Start(b, redistest.Config{Persistent: durable})
		backend, err := redis.Open(b.Context(), redis.Options{URL: server.URL()})
		if err != nil {
			b.Fatal(err)
		}
		defer backend.Close()
		opt, _ := goredis.ParseURL(server.URL())
		look := goredis.NewClient(opt)
		defer look.Close()
		for _, callers := range []int{1, 16, 64} {
			if !durable {
				b.Run(fmt.Sprintf("get/%d", callers), func(b *testing.B) { shared(b, backend, look, callers, false) })
			}
			b.Run(fmt.Sprintf("swap/durable=%t/%d", durable, callers), func(b *testing.B) { shared(b, backend, look, callers, true) })
		}
	}
}

func shared(b *testing.B, backend storage.Backend, look *goredis.Client, callers int, swap bool) {
	data := bytes.Repeat([]byte{'x'}, 700)
	versions := make([]storage.Version, callers)
	var operations atomic.Uint64
	put := func(i int, cond storage.Condition) {
		next := storage.Version{0: 1}
		binary.BigEndian.PutUint64(next[8:], operations.Add(1))
		if _, err := backend.Put(b.Context(), storage.Put{Key: "k" + strconv.Itoa(i), If: cond, Operation: next, Data: data, TTL: time.Hour}); err != nil {
			b.Error(err)
		}
		versions[i] = next
	}
	for i := range callers {
		put(i, storage.Always)
	}
	b.ReportAllocs()
	own, its := processorTime(b, look)
	b.ResetTimer()
	var all sync.WaitGroup
	var left atomic.Int64
	left.Store(int64(b.N))
	for i := range callers {
		all.Go(func() {
			for left.Add(-1) >= 0 {
				if swap {
					put(i, storage.Unchanged(versions[i]))
				} else if _, err := backend.Get(b.Context(), "k"+strconv.Itoa(i)); err != nil {
					b.Error(err)
				}
			}
		})
	}
	all.Wait()
	b.StopTimer()
	own2, its2 := processorTime(b, look)
	b.ReportMetric(float64((own2-own).Nanoseconds())/float64(b.N)/1000, "own-µs/op")
	b.ReportMetric(float64((its2-its).Nanoseconds())/float64(b.N)/1000, "redis-µs/op")
}
