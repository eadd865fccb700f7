package storagetest_test

import (
	"testing"

	"gatehouse.example/storage"
	"gatehouse.example/storage/redis"
	"gatehouse.example/storage/storagetest"
)

// The test of a backend opens one and runs the suites on it.
func ExampleTestBackend() {
	test := func(t *testing.T) {
		open := func(t *testing.T) storage.Backend {
			backend, err := redis.Open(t.Context(), redis.Options{URL: "embedded:"}) // yours
			if err != nil {
				t.Fatal(err)
			}
			return backend
		}
		storagetest.TestBackend(t, open)
		storagetest.TestConcurrency(t, open)
		storagetest.TestStore(t, open)
	}
	_ = test // in a driver it is a test: func TestDriver(t *testing.T)
}
