package cataloguetest_test

import (
	"testing"

	"gatehouse.example/storage"
	"gatehouse.example/storage/catalogue/cataloguetest"
	"gatehouse.example/storage/redis"
)

// This is the test of a backend for catalogues.
func ExampleTestCatalogue() {
	test := func(t *testing.T) {
		cataloguetest.TestCatalogue(t, func(t *testing.T) storage.Backend {
			backend, err := redis.Open(t.Context(), redis.Options{URL: "embedded:"}) // the backend under test
			if err != nil {
				t.Fatal(err)
			}
			return backend
		})
	}
	_ = test // in a test file it would be func TestDriver(t *testing.T)
}
