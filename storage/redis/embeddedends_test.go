package redis

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"gatehouse.example/storage"
)

// TestEmbeddedForgets: items that have ended, and those that were replaced or deleted, leave nothing in
// memory.
func TestEmbeddedForgets(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	b, err := openEmbedded(t.Context(), Options{Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	e := b.(*embedded)
	held := func() string { return fmt.Sprint(len(e.items), " items, ", e.ends.n, " ends") }
	writes := uint64(0)
	write := func(key string, ttl time.Duration) {
		t.Helper()
		put := storage.Put{Key: key, If: storage.Always, TTL: ttl}
		writes++
		binary.BigEndian.PutUint64(put.Operation[:], writes)
		if _, err := b.Put(t.Context(), put); err != nil {
			t.Fatal(err)
		}
	}
	write("brief", time.Millisecond)
	for elapsed, there := range []bool{true, false} {
		now = now.Add(time.Duration(elapsed) * time.Millisecond)
		if _, err := b.Get(t.Context(), "brief"); there != (err == nil) {
			t.Errorf("after %d of 1 ms the answer is %v", elapsed, err)
		}
	}
	for i := range 100 {
		write("refreshed", time.Hour+time.Duration(i)*time.Minute)
		write("deleted", time.Hour)
		write("ended", time.Duration(i+1)*time.Second)
		write("stays", time.Hour)
	}
	write("stays", 0)
	if err := b.Delete(t.Context(), "deleted"); err != nil {
		t.Fatal(err)
	}
	if got := held(); got != "4 items, 3 ends" {
		t.Errorf("after writes there are %s", got)
	}
	now = now.Add(102 * time.Second)
	if _, err := b.Get(t.Context(), "stays"); err != nil {
		t.Error(err)
	}
	if got := held(); got != "2 items, 1 ends" {
		t.Errorf("after an end there are %s", got)
	}
	now = now.Add(24 * time.Hour)
	if keys, _, err := b.Scan(t.Context(), "", "", 10); err != nil || len(keys) != 1 || held() != "1 items, 0 ends" {
		t.Errorf("after all ends there are %s and keys %q: %v", held(), keys, err)
	}
}
