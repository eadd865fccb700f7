package cataloguetest_test

import (
	"testing"

	"gatehouse.example/storage"
	"gatehouse.example/storage/catalogue/cataloguetest"
	"gatehouse.example/storage/redis"
)

// The test of a backend that is to hold catalogues.
func ExampleTestCatalogue() {
	test := func(t *testing.T) {
		cataloguetest.TestCatalogue(t, func(t *testing.T) storage.Backend {
			backend, err := redis.Open(t.Context(), redis.Options{URL: "embedded:"}) // yours
			if err != nil {
				t.Fatal(err)
			}
			return backend
		})
	}
	_ = test // a test is a function of its own: func TestDriver(t *testing.T)
}
