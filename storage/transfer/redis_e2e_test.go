//go:build e2e

package transfer_test

import (
	"fmt"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"gatehouse.example/storage"
	"gatehouse.example/storage/redis"
	"gatehouse.example/storage/redis/redistest"
	"gatehouse.example/storage/transfer"
)

// openURL opens a store on a real Redis.
func openURL(t *testing.T, url string) storage.IndexLister {
	t.Helper()
	b, err := redis.Open(t.Context(), redis.Options{URL: url, PoolSize: transfer.Writers})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b.(storage.IndexLister)
}

// TestRealRedis: a store gets from a file to a single server, behind Sentinel and into a cluster, and
// back into another file, with more records and entries than are read at once.
func TestRealRedis(t *testing.T) {
	const groups = 1200
	for name, start := range map[string]func() string{
		"single": func() string { return redistest.StartServer(t) },
		"sentinel": func() string {
			primary := redistest.Start(t, redistest.Config{})
			redistest.Start(t, redistest.Config{ReplicaOf: primary})
			return redistest.StartSentinels(t, redistest.PrimaryName, primary, 3, time.Second).URL()
		},
		"cluster": func() string { return redistest.StartCluster(t, 3, 0, redistest.Config{}).URL() },
	} {
		t.Run(name, func(t *testing.T) {
			from, through, to := openFile(t, now), openURL(t, start()), openFile(t, now)
			leftOut := fillGolden(t, from, "../testdata/records-v2.json")
			s := newStore(t, from, records())
			for i := range groups {
				if err := s.CreateGroup(t.Context(), storage.Group{Name: fmt.Sprintf("group-%04d", i)}); err != nil {
					t.Fatal(err)
				}
			}
			there := mustCopy(t, between(from, through))
			wantSame(t, contents(t, from), contents(t, through), leftOut...)
			back := mustCopy(t, between(through, to))
			wantSame(t, contents(t, through), contents(t, to))
			if a, b := summed(t, there.Records, there.Lists), summed(t, back.Records, back.Lists); a != b || there.Records["group"].Count != groups {
				t.Errorf("there\n%s\nand back\n%s", a, b)
			}
			if _, err := transfer.Guard(t.Context(), through); err == nil {
				t.Error("what was left behind can be used")
			}
		})
	}
}

// TestRealLifetimes: Redis ends an item as long after its record as the file would have.
func TestRealLifetimes(t *testing.T) {
	url := redistest.StartServer(t)
	from := openFile(t, now)
	s := newStore(t, from, records())
	if err := s.CreateUser(t.Context(), storage.User{Name: "ada"}); err != nil {
		t.Fatal(err)
	}
	if err := s.TakeOnce(t.Context(), "purpose", "value", now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	mustCopy(t, between(from, openURL(t, url)))
	o, err := goredis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	client := goredis.NewClient(o)
	defer client.Close()
	for key, want := range map[string]time.Duration{"gatehouse:once:*": time.Hour + time.Minute, "gatehouse:user:ada": -1} {
		keys, err := client.Keys(t.Context(), key).Result()
		if err != nil || len(keys) != 1 {
			t.Fatalf("%s: %q, %v", key, keys, err)
		}
		if left := client.PTTL(t.Context(), keys[0]).Val(); left > want || want > 0 && left < want-time.Minute || want < 0 && left != want {
			t.Errorf("%s ends in %v, want %v", key, left, want)
		}
	}
}
