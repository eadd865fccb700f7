//go:build e2e

package redis_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"gatehouse.example/storage"
	"gatehouse.example/storage/redis"
	"gatehouse.example/storage/redis/redistest"
)

// TestGetManyFollowsSlots: items whose slots move, have moved, or are half moved are found.
func TestGetManyFollowsSlots(t *testing.T) {
	cluster := redistest.StartCluster(t, 3, 0, redistest.Config{})
	b := open(t, redis.Options{URL: cluster.URL()})
	defer b.Close()
	var keys []string
	for i := range 60 {
		keys = append(keys, fmt.Sprintf("item %d", i))
		put(t, b, storage.Put{Key: keys[i], Data: []byte(keys[i]), Operation: storage.Version{1, byte(i)}})
	}
	check := func(when string) {
		t.Helper()
		items, err := b.GetMany(t.Context(), append(slices.Clone(keys), "none"))
		if err != nil || len(items) != len(keys)+1 {
			t.Fatalf("%s: %d items, %v", when, len(items), err)
		}
		for i, key := range keys {
			if string(items[i].Data) != key {
				t.Errorf("%s: item %d is %q", when, i, items[i].Data)
			}
		}
		if items[len(keys)].Version != (storage.Version{}) {
			t.Errorf("%s: what is not there is %q", when, items[len(keys)].Data)
		}
	}
	check("before")
	for _, key := range keys[:3] {
		slot := cluster.Slot(key)
		from := cluster.Owner(slot)
		to := cluster.Nodes[(slices.Index(cluster.Nodes, from)+1)%3]
		cluster.MigrateSlot(slot, from, to, func() { check("while " + key + " moves") })
		check("when " + key + " has moved")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.GetMany(ctx, keys); !errors.Is(err, context.Canceled) {
		t.Errorf("GetMany in a context that is over: %v", err)
	}
}

// TestUserWithoutMGet: a user of Redis who has no right to MGET, as none needed it before, reads the same,
// and asks for it once.
func TestUserWithoutMGet(t *testing.T) {
	server := redistest.Start(t, gated(inDatabase))
	servers := []*redistest.Server{server}
	b := open(t, redis.Options{URL: asGate(server.URL())})
	defer b.Close()
	put(t, b, storage.Put{Key: "gatehouse:a", Data: []byte("a"), Operation: storage.Version{1}})
	allow(t, servers, strings.ReplaceAll(inDatabase, " mget", ""))
	for range 3 {
		items, err := b.GetMany(t.Context(), []string{"gatehouse:none", "gatehouse:a"})
		if err != nil || len(items) != 2 || items[0].Version != (storage.Version{}) || string(items[1].Data) != "a" {
			t.Fatalf("GetMany: %q, %v", items, err)
		}
	}
	if refused := refusals(t, servers); !slices.Equal(refused, []string{"mget"}) {
		t.Errorf("refused are %q", refused)
	}
	entries, err := server.Client().ACLLog(t.Context(), 10).Result()
	if err != nil || len(entries) != 1 || entries[0].Count != 1 {
		t.Errorf("the server's log of refusals: %v, %v", entries, err)
	}
}
