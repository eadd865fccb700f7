package redis_test

import (
	"testing"
	"time"

	"gatehouse.example/storage"
	"gatehouse.example/storage/catalogue/cataloguetest"
	"gatehouse.example/storage/redis"
	"gatehouse.example/storage/storagetest"
)

// open opens a backend for one test.
func open(t testing.TB, o redis.Options) storage.Backend {
	t.Helper()
	for left := 4; ; left-- {
		start := time.Now()
		backend, err := redis.Open(t.Context(), o)
		if err != nil && time.Since(start) > slow && left > 0 {
			continue // the machine stalls; without that it takes milliseconds
		}
		if err != nil {
			t.Fatal(err)
		}
		return backend
	}
}

func openEmbedded(t *testing.T) storage.Backend { return open(t, redis.Options{URL: "embedded:"}) }

func TestEmbedded(t *testing.T) {
	t.Parallel()
	t.Run("Backend", func(t *testing.T) { storagetest.TestBackend(t, openEmbedded) })
	t.Run("Concurrency", func(t *testing.T) { storagetest.TestConcurrency(t, openEmbedded) })
	t.Run("Store", func(t *testing.T) { storagetest.TestStore(t, openEmbedded) })
	t.Run("Catalogue", func(t *testing.T) { cataloguetest.TestCatalogue(t, openEmbedded) })
}
