package catalogue_test

import (
	"testing"

	"gatehouse.example/storage"
	"gatehouse.example/storage/catalogue/cataloguetest"
	"gatehouse.example/storage/redis"
)

func TestCatalogue(t *testing.T) {
	t.Parallel()
	cataloguetest.TestCatalogue(t, func(t *testing.T) storage.Backend {
		backend, err := redis.Open(t.Context(), redis.Options{URL: "embedded:"})
		if err != nil {
			t.Fatal(err)
		}
		return backend
	})
}
