//go:build e2e

package redis_test

import (
	"errors"
	"testing"
	"time"

	"gatehouse.example/storage"
	"gatehouse.example/storage/redis"
	"gatehouse.example/storage/redis/redistest"
)

// TestRefusedConnection: a server that refuses connections has done nothing. Commands of one
// round trip are no exception: no caller gets the result that a write has happened, that a record
// is missing, or that a value is not a record.
func TestRefusedConnection(t *testing.T) {
	server := redistest.Start(t, redistest.Config{})
	b := open(t, redis.Options{URL: "redis://" + server.Addr})
	defer b.Close()
	put := fresh("kept", "")
	put.Listed = []storage.Listing{{Index: "list", Entry: "kept"}}
	if _, err := b.Put(t.Context(), put); err != nil {
		t.Fatal(err)
	}
	admin := server.Client()
	if err := admin.ConfigSet(t.Context(), "requirepass", "changed").Err(); err != nil {
		t.Fatal(err)
	}
	admin.Do(t.Context(), "client", "kill", "type", "normal", "skipme", "no")
	for range 2 { // the first may use the connection that was cut
		put := fresh("another", "")
		put.Listed = []storage.Listing{{Index: "list", Entry: "another"}}
		if _, err := b.Put(t.Context(), put); err == nil || errors.Is(err, storage.ErrConflict) {
			t.Errorf("a write: %v", err)
		}
		if items, err := b.GetMany(t.Context(), []string{"kept", "another"}); err == nil || errors.Is(err, storage.ErrRecord) || errors.Is(err, storage.ErrNotFound) {
			t.Errorf("a read: %v, %v", items, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
