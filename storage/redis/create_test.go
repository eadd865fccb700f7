package redis_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"gatehouse.example/storage"
	"gatehouse.example/storage/redis"
)

// TestCreate: what is not there is made with one command and without a script, also at a server that
// has none. Whatever is there is left as it is, and only the same write counts as done.
func TestCreate(t *testing.T) {
	t.Parallel()
	m := miniredis.RunT(t)
	var trips atomic.Int64
	b := open(t, redis.Options{URL: "redis://" + m.Addr(), OnRoundTrip: func() { trips.Add(1) }})
	defer b.Close()
	first := storage.Put{
		Key: "k", Data: []byte("first"), Operation: storage.Version{1}, TTL: time.Hour,
		Listed: []storage.Listing{{Index: "i", Entry: "k"}, {Index: "j", Entry: "k"}},
	}
	send := func(p storage.Put, most int64, want error) storage.Item {
		t.Helper()
		before := trips.Load()
		item, err := b.Put(t.Context(), p)
		if n := trips.Load() - before; !errors.Is(err, want) || n > most {
			t.Errorf("%v after %d round trips; want %v after at most %d", err, n, want, most)
		}
		return item
	}
	send(first, 1, nil)
	if ttl := m.TTL("k"); ttl != time.Hour {
		t.Errorf("the item has %v left", ttl)
	}
	for index := range map[string]bool{"i": true, "j": true} {
		if entries, err := m.ZMembers(index); err != nil || len(entries) != 1 {
			t.Errorf("index %s has %q, %v", index, entries, err)
		}
	}
	m.SetTTL("k", time.Minute)
	other := storage.Put{Key: "k", Data: []byte("other"), Operation: storage.Version{2}, TTL: time.Hour}
	if item := send(other, 3, storage.ErrConflict); item.Version != first.Operation || string(item.Data) != "first" {
		t.Errorf("in the way of another write is %q", item.Data)
	}
	send(first, 2, nil)
	if ttl := m.TTL("k"); ttl != time.Minute {
		t.Errorf("after writes that changed nothing the item has %v left", ttl)
	}
	send(storage.Put{Key: "forever", Operation: storage.Version{3}}, 1, nil)
	if ttl := m.TTL("forever"); ttl != 0 {
		t.Errorf("an item without an end has %v left", ttl)
	}
	for key, condition := range map[string]storage.Condition{"brief": storage.Absent, "brief again": storage.Always} {
		send(storage.Put{Key: key, Operation: storage.Version{7}, If: condition, TTL: time.Nanosecond}, 2, nil)
		if ttl := m.TTL(key); ttl <= 0 {
			t.Errorf("an item with less than a millisecond has no end: %v", ttl)
		}
	}
	if _, err := b.Put(t.Context(), storage.Put{Key: "fenced", Operation: storage.Version{4}, On: "a lineage"}); err == nil || m.Exists("fenced") {
		t.Errorf("a write on a lineage, to a server that has none: %v", err)
	}
	if err := m.Set("word", "OK"); err != nil { // which is the answer to a SET
		t.Fatal(err)
	}
	send(storage.Put{Key: "word", Operation: storage.Version{5}}, 2, storage.ErrRecord)
	send(storage.Put{Key: "word", Operation: storage.Version{5}, If: storage.Unchanged(storage.Version{6})}, 1, storage.ErrRecord)
}
