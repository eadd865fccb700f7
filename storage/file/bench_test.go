package file_test

import (
	"context"
	"crypto/rand"
	"flag"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gatehouse.example/metadata"
	"gatehouse.example/storage"
	"gatehouse.example/storage/file"
	"gatehouse.example/storage/redis"
	"gatehouse.example/storage/redis/redistest"
)

// stores are the backends that are compared. The file is on the disk of TMPDIR.
func stores(b *testing.B) map[string]func(b *testing.B) storage.Backend {
	b.Helper()
	return map[string]func(b *testing.B) storage.Backend{
		"file":     func(b *testing.B) storage.Backend { return openAt(b, b.TempDir()) },
		"embedded": func(b *testing.B) storage.Backend { return openRedis(b, "embedded:") },
		"redis": func(b *testing.B) storage.Backend {
			server := redistest.Start(b, redistest.Config{Persistent: true})
			return openRedis(b, "redis://"+server.Addr)
		},
	}
}

func openRedis(b *testing.B, url string) storage.Backend {
	backend, err := redis.Open(b.Context(), redis.Options{URL: url, PoolSize: 64})
	if err != nil {
		b.Fatal(err)
	}
	return backend
}

// compare measures an operation on every store, for 1 and 64 that use it at once. Each of them has a
// grant of its own.
func compare(b *testing.B, run func(ctx context.Context, s *storage.Store, g *storage.Grant) error) {
	for name, open := range stores(b) {
		for _, n := range []int{1, 64} {
			b.Run(fmt.Sprint(name, "/", n), func(b *testing.B) {
				s := newStore(b, open(b))
				mine := make([]storage.Grant, n)
				for i := range mine {
					g, err := s.Redeem(b.Context(), newGrant(b, s), life())
					if err != nil {
						b.Fatal(err)
					}
					mine[i] = g
				}
				b.ReportAllocs()
				b.ResetTimer()
				var all sync.WaitGroup
				var left atomic.Int64
				left.Store(int64(b.N))
				for i := range mine {
					all.Go(func() {
						for left.Add(-1) >= 0 {
							if err := run(b.Context(), s, &mine[i]); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				all.Wait()
			})
		}
	}
}

func BenchmarkIssueAndRedeem(b *testing.B) {
	compare(b, func(ctx context.Context, s *storage.Store, _ *storage.Grant) error {
		_, err := s.Redeem(ctx, newGrant(b, s), life())
		return err
	})
}

func BenchmarkRotate(b *testing.B) {
	compare(b, func(ctx context.Context, s *storage.Store, g *storage.Grant) (err error) {
		*g, err = s.Rotate(ctx, *g, life())
		return err
	})
}

func BenchmarkRegister(b *testing.B) {
	compare(b, func(ctx context.Context, s *storage.Store, _ *storage.Grant) error {
		return s.CreateClient(ctx, storage.Client{
			ID: rand.Text(), Source: storage.ClientRegistered, Created: time.Now(), Expires: time.Now().Add(24 * time.Hour),
			Metadata: metadata.Client{RedirectURIs: []string{"http://127.0.0.1/callback"}, ClientName: "An application", TokenEndpointAuthMethod: "none"},
		})
	})
}

// BenchmarkRead is what introspection reads.
func BenchmarkRead(b *testing.B) {
	compare(b, func(ctx context.Context, s *storage.Store, g *storage.Grant) error {
		_, err := s.Grant(ctx, g.ID)
		return err
	})
}

var many = flag.Int("file.many", 0, "how many grants TestManyGrants makes")

// TestManyGrants measures a file with very many grants: bytes for each, how long opening takes,
// and the memory of the process.
func TestManyGrants(t *testing.T) {
	if *many == 0 {
		t.Skip("for measurements: set -file.many 1000000")
	}
	path := filepath.Join(t.TempDir(), "gatehouse.db")
	b, err := file.Open(file.Options{Path: path, Create: true})
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	s := newStore(t, b)
	for quarter := range 4 {
		makeMany(t.Context(), s, *many/4)
		t.Logf("%d grants made in %v, heap %d MB", *many/4*(quarter+1), time.Since(begin).Round(time.Second), heap())
	}
	rotate := func(what string) {
		g := newGrant(t, s)
		g, err = s.Redeem(t.Context(), g, life())
		begin = time.Now()
		for range 200 {
			if g, err = s.Rotate(t.Context(), g, life()); err != nil {
				t.Fatal(err)
			}
		}
		t.Log(what, time.Since(begin)/200)
	}
	rotate("one rotation after the other, each:")
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("dd", "of="+path, "oflag=nocache", "conv=notrunc", "count=0").CombinedOutput(); err != nil {
		t.Log("the file is still in memory:", string(out))
	}
	info, _ := os.Stat(path)
	t.Log(info.Size()/int64(*many), "bytes for each grant")
	begin = time.Now()
	highest := uint64(0)
	if b, err = file.Open(file.Options{Path: path, Progress: func(int64, int64) { highest = max(highest, allocated()) }}); err != nil {
		t.Fatal(err)
	}
	t.Logf("opened in %v, heap %d MB meanwhile at most, %d MB then", time.Since(begin).Round(time.Millisecond), highest, heap())
	keys, _, err := b.Scan(t.Context(), fmt.Sprint(mathrand.IntN(10)), rand.Text(), 10)
	if err != nil || b.Close() != nil {
		t.Fatal(keys, err)
	}
}

// makeMany makes grants, 256 at a time.
func makeMany(ctx context.Context, s *storage.Store, n int) {
	var all sync.WaitGroup
	for range 256 {
		all.Go(func() {
			for range n / 256 {
				for range 20 { // a disk that others use may take seconds
					if _, err := makeGrant(ctx, s); err == nil {
						break
					}
				}
			}
		})
	}
	all.Wait()
}

// heap is what is in use in the heap, and allocated also what is not collected yet, in MB.
func heap() uint64 {
	runtime.GC()
	return allocated()
}

func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc >> 20
}
