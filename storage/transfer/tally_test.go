package transfer

import (
	"encoding/json"
	"testing"

	"gatehouse.example/storage"
)

// TestTally: a digest is over every byte of every record and entry, and their order does not matter.
func TestTally(t *testing.T) {
	t.Parallel()
	of := func(keys ...string) Tally {
		all := tallies{}
		for _, key := range keys {
			all.addItem(key, storage.Item{Data: []byte("data"), Version: storage.Version{1}})
		}
		return all["kind"]
	}
	const a, b, c = "gatehouse:kind:a", "gatehouse:kind:b", "gatehouse:kind:c"
	if of(a, b, c) != of(c, a, b) || of(a, b) == of(a, c) || of(a) == of(a, a) || of(a, a, b) == of(b, b, a) {
		t.Error("the digest is not that of a set with numbers")
	}
	seen := map[string]string{}
	for name, add := range map[string]func(tallies){
		"a record":         func(all tallies) { all.addItem(a, storage.Item{Data: []byte("data"), Version: storage.Version{1}}) },
		"another key":      func(all tallies) { all.addItem(b, storage.Item{Data: []byte("data"), Version: storage.Version{1}}) },
		"another version":  func(all tallies) { all.addItem(a, storage.Item{Data: []byte("data"), Version: storage.Version{2}}) },
		"another content":  func(all tallies) { all.addItem(a, storage.Item{Data: []byte("Data"), Version: storage.Version{1}}) },
		"an entry":         func(all tallies) { all.addEntry(a, "entry") },
		"another entry":    func(all tallies) { all.addEntry(a, "entries") },
		"of another index": func(all tallies) { all.addEntry(a+"e", "ntry") },
	} {
		all := tallies{}
		add(all)
		digest := all["kind"].Digest()
		if before, there := seen[digest]; there || len(digest) != 64 || all["kind"].Count != 1 {
			t.Errorf("%s has the digest %s, as has %q", name, digest, before)
		}
		seen[digest] = name
	}
	data, err := json.Marshal(of(a))
	if want := `{"count":1,"digest":"` + of(a).Digest() + `"}`; err != nil || string(data) != want {
		t.Errorf("%s, %v", data, err)
	}
}
