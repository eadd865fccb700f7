package storage_test

import (
	"testing"

	"gatehouse.example/storage"
	"gatehouse.example/storage/redis"
	"gatehouse.example/storage/storagetest"
)

// TestFaults: a backend that fails on command keeps the contract while it does not fail, also
// when it has a lineage. So the results of tests with it apply to other backends.
func TestFaults(t *testing.T) {
	t.Parallel()
	for name, lineage := range map[string]storage.Lineage{"no lineage": "", "a lineage": "one"} {
		t.Run(name, func(t *testing.T) {
			storagetest.TestBackend(t, func(t *testing.T) storage.Backend {
				backend, err := redis.Open(t.Context(), redis.Options{URL: "embedded:"})
				if err != nil {
					t.Fatal(err)
				}
				faults := storagetest.NewFaults(backend)
				faults.SetLineage(lineage)
				return faults
			})
		})
	}
}
