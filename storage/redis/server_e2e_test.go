//go:build e2e

package redis_test

import (
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"gatehouse.example/storage"
	"gatehouse.example/storage/redis"
	"gatehouse.example/storage/redis/redistest"
	"gatehouse.example/storage/storagetest"
)

// suites runs all suites against one real server.
func suites(t *testing.T, url string) {
	openURL := func(t *testing.T) storage.Backend { return open(t, redis.Options{URL: url}) }
	t.Run("Backend", func(t *testing.T) { storagetest.TestBackend(t, openURL) })
	t.Run("Concurrency", func(t *testing.T) { storagetest.TestConcurrency(t, openURL) })
	t.Run("Store", func(t *testing.T) { storagetest.TestStore(t, openURL) })
}

func TestServer(t *testing.T) {
	server := redistest.StartServer(t, "--requirepass", "p@/: word")
	wantNoOpen(t, redis.Options{URL: server}, "redis://user:password@host")
	wantNoOpen(t, redis.Options{URL: strings.Replace(server, "//", "//:hunter2@", 1)}, "check the user and the password")
	suites(t, strings.Replace(server, "//", "//:p%40%2F%3A%20word@", 1)+"/5")
}

func TestServerSentinel(t *testing.T) {
	primary := redistest.Start(t, redistest.Config{Persistent: true})
	for range 2 {
		redistest.Start(t, redistest.Config{Persistent: true, ReplicaOf: primary})
	}
	url := redistest.StartSentinels(t, "main", primary, 3, 5*time.Second).URL()
	wantNoOpen(t, redis.Options{URL: strings.Replace(url, "/main", "/other", 1)}, "know the name other")
	suites(t, url+"?db=2")
}

func TestServerCluster(t *testing.T) {
	url := redistest.StartServer(t, "--cluster-enabled", "yes")
	addr := strings.TrimPrefix(url, "redis://")
	client := goredis.NewClient(&goredis.Options{Addr: addr})
	defer client.Close()
	if err := client.ClusterAddSlotsRange(t.Context(), 0, 16383).Err(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		info, err := client.ClusterInfo(t.Context()).Result()
		if strings.Contains(info, "cluster_state:ok") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the cluster is not ready: %s %v", info, err)
		}
	}
	suites(t, "redis+cluster://"+addr)
}

// TestServerForeignValues: the script answers on a real server as it does embedded.
func TestServerForeignValues(t *testing.T) {
	url := redistest.StartServer(t)
	client := goredis.NewClient(&goredis.Options{Addr: strings.TrimPrefix(url, "redis://")})
	defer client.Close()
	foreignValues(t, open(t, redis.Options{URL: url}), foreign{
		set:  func(key, value string) error { return client.Set(t.Context(), key, value, 0).Err() },
		push: func(key string) error { return client.LPush(t.Context(), key, "x").Err() },
	})
}
