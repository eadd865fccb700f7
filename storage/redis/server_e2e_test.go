//go:build e2e

package redis_test

import (
	"testing"

	"gatehouse.example/storage"
	"gatehouse.example/storage/redis"
	"gatehouse.example/storage/redis/redistest"
	"gatehouse.example/storage/storagetest"
)

func TestServer(t *testing.T) {
	url := redistest.StartServer(t)
	openServer := func(t *testing.T) storage.Backend { return open(t, redis.Options{URL: url}) }
	t.Run("Backend", func(t *testing.T) { storagetest.TestBackend(t, openServer) })
	t.Run("Concurrency", func(t *testing.T) { storagetest.TestConcurrency(t, openServer) })
	t.Run("Store", func(t *testing.T) { storagetest.TestStore(t, openServer) })
}
