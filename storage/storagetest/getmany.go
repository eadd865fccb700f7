package storagetest

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"gatehouse.example/storage"
)

// testGetMany: the items are returned in the order of the keys, whichever are there, on whatever
// server of a cluster.
func testGetMany(t *testing.T, b storage.Backend) {
	wantMany(t, b, nil)
	var keys []string
	want := map[string]storage.Item{}
	for i := range 150 {
		key := unique(name("many %03d", i))
		keys = append(keys, key)
		if i%3 > 0 {
			data := strings.Repeat(everyByte(), i%7)
			want[key] = storage.Item{Data: []byte(data), Version: put(t, b, key, data)}
		}
	}
	wantMany(t, b, want, keys...)
	wantMany(t, b, want, keys[2])
	wantMany(t, b, want, keys[0]) // it is not there
	wantMany(t, b, want, keys[7], keys[4], keys[7], keys[3], keys[4])
	slices.Reverse(keys)
	wantMany(t, b, want, keys...)
	wantError(t, "Delete", b.Delete(t.Context(), keys[1]), nil)
	delete(want, keys[1])
	wantMany(t, b, want, keys...)
	changedByReader(t, b, want, keys[:1]...)
	changedByReader(t, b, want, keys...)
}

// changedByReader: whoever reads items may change their bytes and append to them. That changes neither
// the store nor the other items.
func changedByReader(t *testing.T, b storage.Backend, want map[string]storage.Item, keys ...string) {
	t.Helper()
	items, err := b.GetMany(t.Context(), keys)
	if err != nil || len(items) != len(keys) {
		t.Fatalf("GetMany of %d keys: %d items, %v", len(keys), len(items), err)
	}
	for i, key := range keys {
		if string(items[i].Data) != string(want[key].Data) {
			t.Fatalf("an item is %.40q after another one was changed, want %.40q", items[i].Data, want[key].Data)
		}
		clear(items[i].Data)
		items[i].Data = append(items[i].Data, "changed by its reader"...)
	}
	wantMany(t, b, want, keys...)
}

// wantMany checks what GetMany returns for keys.
func wantMany(t *testing.T, b storage.Backend, want map[string]storage.Item, keys ...string) {
	t.Helper()
	items, err := b.GetMany(t.Context(), keys)
	if err != nil || len(items) != len(keys) {
		t.Fatalf("GetMany of %d keys: %d items, %v", len(keys), len(items), err)
	}
	for i, key := range keys {
		wantItem(t, name("GetMany, key %d of %d", i, len(keys)), items[i], string(want[key].Data), want[key].Version)
	}
}

// raceGetMany: each item that is read during writes is one of those that were written.
func raceGetMany(t *testing.T, b storage.Backend) {
	keys := make([]string, 8)
	for i := range keys {
		keys[i] = unique("many")
		put(t, b, keys[i], "runner 0")
	}
	errs := together(runners, func(i int) error {
		if i%2 == 0 {
			_, err := b.Put(t.Context(), contender(keys[i/2%len(keys)], i, storage.Always))
			return err
		}
		items, err := b.GetMany(t.Context(), keys)
		for _, item := range items {
			if !strings.HasPrefix(string(item.Data), "runner ") || item.Version == (storage.Version{}) {
				err = errors.Join(err, errors.New(name("GetMany returned %q", item.Data)))
			}
		}
		return err
	})
	wantError(t, "reading many while they change", errors.Join(errs...), nil)
}
