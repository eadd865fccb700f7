package redistest_test

import (
	"testing"

	"gatehouse.example/storage/redis"
	"gatehouse.example/storage/redis/redistest"
)

// A write before a server was killed is read after its restart.
func ExampleStart() {
	test := func(t *testing.T) {
		server := redistest.Start(t, redistest.Config{Persistent: true})
		backend, err := redis.Open(t.Context(), redis.Options{URL: server.URL()})
		if err != nil {
			t.Fatal(err)
		}
		defer backend.Close()
		if err := backend.IndexAdd(t.Context(), "people", "ada"); err != nil {
			t.Fatal(err)
		}
		server.Restart()
		if n, err := backend.IndexLen(t.Context(), "people"); n != 1 || err != nil {
			t.Errorf("%d people after a restart, %v", n, err)
		}
	}
	_ = test // as a test of its own: func TestRestart(t *testing.T)
}
