package storagetest

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"gatehouse.example/storage"
)

// TestBackend checks each method of a [storage.Backend] against its documentation.
func TestBackend(t *testing.T, open Open) {
	tests := map[string]func(*testing.T, storage.Backend){
		"Get":               testGet,
		"GetMany":           testGetMany,
		"Binary":            testBinary,
		"PrivateCopies":     testPrivateCopies,
		"PutConditions":     testPutConditions,
		"PutRepeated":       testPutRepeated,
		"PutRefused":        testPutRefused,
		"PutListed":         testPutListed,
		"Lineage":           testLineage,
		"PutVanished":       testPutVanished,
		"TTL":               testTTL,
		"TTLReplaced":       testTTLReplaced,
		"Delete":            testDelete,
		"Index":             testIndex,
		"IndexPages":        testIndexPages,
		"IndexBytes":        testIndexBytes,
		"IndexPageBefore":   testIndexPageBefore,
		"IndexWhileRemoved": testIndexWhileRemoved,
		"Cancelled":         testCancelled,
		"Count":             testCount,
		"Scan":              testScan,
		"Indexes":           testIndexes,
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open.begin(t))
		})
	}
}

func testGet(t *testing.T, b storage.Backend) {
	key := unique("get")
	wantStored(t, b, key, "", storage.Version{})
	for _, data := range []string{"one", "", strings.Repeat("x", 256<<10), "two"} {
		version := put(t, b, key, data)
		wantStored(t, b, key, data, version)
	}
}

// everyByte holds all 256 byte values.
func everyByte() string {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	return string(all)
}

func testBinary(t *testing.T, b storage.Backend) {
	key := unique("binary " + everyByte())
	for _, data := range []string{everyByte(), "\x00", "\r\n", "*1\r\n$4\r\nPING\r\n", "\xff\xfe"} {
		wantStored(t, b, key, data, put(t, b, key, data))
	}
	// Versions are bytes too, also those that look like words of a condition.
	for _, version := range []storage.Version{
		{15: 1}, {0: 0xff}, storage.Version([]byte("always\x00\r\n$-1\r\n\x00\x00")),
		storage.Version([]byte("0000000000000000")), storage.Version([]byte("                ")),
		storage.Version(bytes.Repeat([]byte{0xff}, 16)),
	} {
		before := put(t, b, key, "before")
		change := storage.Put{Key: key, Data: []byte("after"), If: storage.Unchanged(before), Operation: version}
		item, err := b.Put(t.Context(), change)
		wantError(t, "Put", err, nil)
		wantItem(t, "Put", item, "after", version)
		wantStored(t, b, key, "after", version)
		change = storage.Put{Key: key, Data: []byte("last"), If: storage.Unchanged(version), Operation: operation()}
		_, err = b.Put(t.Context(), change)
		wantError(t, name("Put over version %x", version), err, nil)
	}
}

func testPrivateCopies(t *testing.T, b storage.Backend) {
	key, op := unique("copies"), operation()
	data := []byte("mine")
	if _, err := b.Put(t.Context(), storage.Put{Key: key, Data: data, Operation: op}); err != nil {
		t.Fatal(err)
	}
	data[0] = '!'
	item, err := b.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	wantItem(t, "Get after the caller's slice changed", item, "mine", op)
	item.Data[0] = '!'
	wantStored(t, b, key, "mine", op)
}

func testPutConditions(t *testing.T, b storage.Backend) {
	for _, test := range []struct {
		name  string
		there bool
		cond  func(current storage.Version) storage.Condition
		want  error
	}{
		{"nothing, zero condition", false, zeroCondition, nil},
		{"nothing, absent", false, fixed(storage.Absent), nil},
		{"nothing, always", false, fixed(storage.Always), nil},
		{"nothing, unchanged zero", false, fixed(storage.Unchanged(storage.Version{})), nil},
		{"nothing, unchanged", false, fixed(storage.Unchanged(operation())), storage.ErrConflict},
		{"item, zero condition", true, zeroCondition, storage.ErrConflict},
		{"item, absent", true, fixed(storage.Absent), storage.ErrConflict},
		{"item, always", true, fixed(storage.Always), nil},
		{"item, unchanged zero", true, fixed(storage.Unchanged(storage.Version{})), storage.ErrConflict},
		{"item, unchanged", true, storage.Unchanged, nil},
		{"item, another version", true, fixed(storage.Unchanged(operation())), storage.ErrConflict},
		{"item, first byte differs", true, flipped(0), storage.ErrConflict},
		{"item, last byte differs", true, flipped(15), storage.ErrConflict},
	} {
		t.Run(test.name, func(t *testing.T) {
			key, op := unique("conditions"), operation()
			var before storage.Version
			if test.there {
				before = put(t, b, key, "before")
			}
			change := storage.Put{Key: key, Data: []byte("after"), If: test.cond(before), Operation: op}
			item, err := b.Put(t.Context(), change)
			wantError(t, "Put", err, test.want)
			switch {
			case test.want == nil:
				wantItem(t, "Put", item, "after", op)
				wantStored(t, b, key, "after", op)
			case test.there:
				wantItem(t, "the losing Put", item, "before", before)
				wantStored(t, b, key, "before", before)
			default:
				wantItem(t, "the losing Put", item, "", storage.Version{})
				wantStored(t, b, key, "", storage.Version{})
			}
		})
	}
}

func zeroCondition(storage.Version) storage.Condition { return storage.Condition{} }

func fixed(c storage.Condition) func(storage.Version) storage.Condition {
	return func(storage.Version) storage.Condition { return c }
}

func flipped(i int) func(storage.Version) storage.Condition {
	return func(v storage.Version) storage.Condition {
		v[i] ^= 1
		return storage.Unchanged(v)
	}
}

func testPutRepeated(t *testing.T, b storage.Backend) {
	key := unique("repeated")
	before := put(t, b, key, "before")
	first := storage.Put{Key: key, Data: []byte("first"), If: storage.Unchanged(before), Operation: operation()}
	for range 3 { // the condition no longer holds, but the operation is the same
		item, err := b.Put(t.Context(), first)
		wantError(t, "the same Put again", err, nil)
		wantItem(t, "the same Put again", item, "first", first.Operation)
		wantStored(t, b, key, "first", first.Operation)
	}
	create := storage.Put{Key: unique("created"), Data: []byte("created"), Operation: operation()}
	for range 2 {
		_, err := b.Put(t.Context(), create)
		wantError(t, "the same creating Put again", err, nil)
	}
	second := storage.Put{Key: key, Data: []byte("second"), If: storage.Unchanged(first.Operation), Operation: operation()}
	_, err := b.Put(t.Context(), second)
	wantError(t, "the next Put", err, nil)
	item, err := b.Put(t.Context(), first)
	wantError(t, "an overwritten Put again", err, storage.ErrConflict)
	wantItem(t, "an overwritten Put again", item, "second", second.Operation)
	wantStored(t, b, key, "second", second.Operation)
}

func testPutRefused(t *testing.T, b storage.Backend) {
	for name, refused := range map[string]storage.Put{
		"no operation":      {If: storage.Always},
		"negative lifetime": {If: storage.Always, Operation: operation(), TTL: -1},
	} {
		refused.Key, refused.Data = unique("refused"), []byte("data")
		if _, err := b.Put(t.Context(), refused); err == nil || errors.Is(err, storage.ErrConflict) {
			t.Errorf("%s: Put returned error %v; want a refusal", name, err)
		}
		wantStored(t, b, refused.Key, "", storage.Version{})
	}
}

// testPutVanished: a swap does not restore an item that is gone.
func testPutVanished(t *testing.T, b storage.Backend) {
	key := unique("vanished")
	before := put(t, b, key, "before")
	wantError(t, "Delete", b.Delete(t.Context(), key), nil)
	change := storage.Put{Key: key, Data: []byte("after"), If: storage.Unchanged(before), Operation: operation()}
	item, err := b.Put(t.Context(), change)
	wantError(t, "Put", err, storage.ErrConflict)
	wantItem(t, "Put", item, "", storage.Version{})
	wantStored(t, b, key, "", storage.Version{})
}

func testTTL(t *testing.T, b storage.Backend) {
	const ttl = 400 * time.Millisecond
	key, forever := unique("ttl"), unique("forever")
	kept := put(t, b, forever, "kept")
	start := time.Now()
	short := storage.Put{Key: key, Data: []byte("short"), Operation: operation(), TTL: ttl}
	if _, err := b.Put(t.Context(), short); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the end of an item", func() bool {
		_, err := b.Get(t.Context(), key)
		if ended := errors.Is(err, storage.ErrNotFound); ended || err != nil {
			wantError(t, "Get", err, storage.ErrNotFound)
			if age := time.Since(start); ended && age < ttl {
				t.Errorf("the item ended after %v, its lifetime is %v", age, ttl)
			}
			return true
		}
		return false
	})
	change := storage.Put{Key: key, Data: []byte("after"), If: storage.Unchanged(short.Operation), Operation: operation()}
	item, err := b.Put(t.Context(), change)
	wantError(t, "a swap of an ended item", err, storage.ErrConflict)
	wantItem(t, "a swap of an ended item", item, "", storage.Version{})
	change.If = storage.Absent
	_, err = b.Put(t.Context(), change)
	wantError(t, "Put in place of an ended item", err, nil)
	wantStored(t, b, forever, "kept", kept)
}

// testTTLReplaced: a write sets the lifetime anew, a refused or repeated write does not change
// it.
func testTTLReplaced(t *testing.T, b storage.Backend) {
	const ttl = 300 * time.Millisecond
	send := func(p storage.Put, want error) storage.Version {
		t.Helper()
		p.Data, p.Operation = []byte("data"), operation()
		_, err := b.Put(t.Context(), p)
		wantError(t, "Put", err, want)
		return p.Operation
	}
	probe, none, longer, refused := unique("probe"), unique("none"), unique("longer"), unique("refused")
	v := send(storage.Put{Key: none, TTL: ttl}, nil)
	none2 := send(storage.Put{Key: none, If: storage.Unchanged(v)}, nil)
	v = send(storage.Put{Key: longer, TTL: ttl}, nil)
	longer2 := send(storage.Put{Key: longer, If: storage.Unchanged(v), TTL: time.Hour}, nil)
	kept := send(storage.Put{Key: refused}, nil)
	send(storage.Put{Key: refused, TTL: time.Millisecond}, storage.ErrConflict)
	send(storage.Put{Key: probe, TTL: ttl}, nil)
	eventually(t, "the end of the probe", func() bool {
		_, err := b.Get(t.Context(), probe)
		return errors.Is(err, storage.ErrNotFound)
	})
	wantStored(t, b, none, "data", none2)
	wantStored(t, b, longer, "data", longer2)
	wantStored(t, b, refused, "data", kept)
}

// testPutListed: the entries of an item are there when it is, and stay when it was not written.
func testPutListed(t *testing.T, b storage.Backend) {
	one, two := unique("one"), unique("two")
	first := storage.Put{Key: unique("listed"), Operation: operation(), Listed: []storage.Listing{{Index: one, Entry: "b"}, {Index: two, Entry: everyByte()}}}
	for range 2 {
		_, err := b.Put(t.Context(), first)
		wantError(t, "Put", err, nil)
		wantEntries(t, "the first index", page(t, b, one, "", 10), "b")
		wantEntries(t, "the second index", page(t, b, two, "", 10), everyByte())
	}
	loser := storage.Put{Key: first.Key, Operation: operation(), Listed: []storage.Listing{{Index: one, Entry: "a"}}}
	_, err := b.Put(t.Context(), loser)
	wantError(t, "Put of a second item", err, storage.ErrConflict)
	wantEntries(t, "the first index", page(t, b, one, "", 10), "a", "b")
}

// testLineage: a write for a lineage that does not answer changes nothing, but one that has
// happened before succeeds.
func testLineage(t *testing.T, b storage.Backend) {
	now, err := b.Lineage(t.Context())
	wantError(t, "Lineage", err, nil)
	again, err := b.Lineage(t.Context())
	if err != nil || again != now {
		t.Errorf("Lineage returned %q, then %q, %v", now, again, err)
	}
	first := storage.Put{Key: unique("lineage"), Data: []byte("data"), Operation: operation(), On: now}
	_, err = b.Put(t.Context(), first)
	wantError(t, "Put on the lineage that answers", err, nil)
	if now == "" {
		return // no other copy can take over
	}
	first.On = "0000000000000000000000000000000000000000"
	_, err = b.Put(t.Context(), first)
	wantError(t, "the same Put on another lineage", err, nil)
	for what, cond := range map[string]storage.Condition{
		"absent": storage.Absent, "always": storage.Always, "unchanged": storage.Unchanged(first.Operation),
	} {
		_, err = b.Put(t.Context(), storage.Put{Key: first.Key, If: cond, Operation: operation(), On: first.On})
		wantError(t, what+" on another lineage", err, storage.ErrLineage)
	}
	wantStored(t, b, first.Key, "data", first.Operation)
}

func testDelete(t *testing.T, b storage.Backend) {
	key, other := unique("delete"), unique("other")
	kept := put(t, b, other, "kept")
	put(t, b, key, "data")
	for range 2 {
		wantError(t, "Delete", b.Delete(t.Context(), key), nil)
		wantStored(t, b, key, "", storage.Version{})
	}
	wantStored(t, b, other, "kept", kept)
}

func testIndex(t *testing.T, b storage.Backend) {
	index, other := unique("index"), unique("other")
	wantEntries(t, "an index that nobody made", page(t, b, index, "", 10))
	wantLen(t, b, index, 0)
	wantError(t, "IndexRemove of nothing", b.IndexRemove(t.Context(), index, "x"), nil)
	fill(t, b, index, "b", "c", "a", "b", "b")
	fill(t, b, other, "z")
	wantEntries(t, "order", page(t, b, index, "", 10), "a", "b", "c")
	wantLen(t, b, index, 3)
	for range 2 {
		wantError(t, "IndexRemove", b.IndexRemove(t.Context(), index, "b"), nil)
		wantEntries(t, "after a removal", page(t, b, index, "", 10), "a", "c")
		wantLen(t, b, index, 2)
	}
	fill(t, b, index, "b")
	wantEntries(t, "after adding again", page(t, b, index, "", 10), "a", "b", "c")
	for _, entry := range []string{"a", "b", "c"} {
		wantError(t, "IndexRemove", b.IndexRemove(t.Context(), index, entry), nil)
	}
	wantEntries(t, "an emptied index", page(t, b, index, "", 10))
	wantLen(t, b, index, 0)
	wantLen(t, b, other, 1)
	wantEntries(t, "another index", page(t, b, other, "", 10), "z")
}

func wantLen(t *testing.T, b storage.Backend, index string, want int) {
	t.Helper()
	if n, err := b.IndexLen(t.Context(), index); err != nil || n != want {
		t.Errorf("IndexLen returned %d, %v; want %d", n, err, want)
	}
}

func testIndexPages(t *testing.T, b storage.Backend) {
	index := unique("pages")
	fill(t, b, index, "ab", "b", "a", "abc", "c")
	for _, test := range []struct {
		after string
		limit int
		want  []string
	}{
		{"", 2, []string{"a", "ab"}},
		{"", 100, []string{"a", "ab", "abc", "b", "c"}},
		{"a", 2, []string{"ab", "abc"}},
		{"ab", 100, []string{"abc", "b", "c"}},
		{"aa", 1, []string{"ab"}}, // after needs not be an entry
		{"a\x00", 1, []string{"ab"}},
		{"c", 1, nil},
		{"zzz", 10, nil},
		{"", 0, nil},
		{"a", -1, nil},
	} {
		got := page(t, b, index, test.after, test.limit)
		wantEntries(t, name("after %q, limit %d", test.after, test.limit), got, test.want...)
	}
}

func testIndexBytes(t *testing.T, b storage.Backend) {
	index := unique("bytes")
	entries := []string{
		"\x00", "\x00\x00", "\x00\xff", "\r\n", "(", "(a", "+", "-", "[", "[a", "a", "a\x00", "é", everyByte()[1:], "\x80", "\xff", "\xff\xff",
	}
	fill(t, b, index, entries...)
	slices.Sort(entries)
	wantEntries(t, "all at once", page(t, b, index, "", 100), entries...)
	after := ""
	var walked []string
	for {
		next := page(t, b, index, after, 1)
		if len(next) == 0 {
			break
		}
		after = next[0]
		walked = append(walked, after)
	}
	wantEntries(t, "one by one", walked, entries...)
}

// testIndexWhileRemoved removes entries while it iterates, as cleaning an index does.
func testIndexWhileRemoved(t *testing.T, b storage.Backend) {
	index := unique("walk")
	var entries []string
	for i := range 50 {
		entries = append(entries, name("%03d", i))
	}
	fill(t, b, index, entries...)
	var walked []string
	after := ""
	for next := page(t, b, index, after, 7); len(next) > 0; next = page(t, b, index, after, 7) {
		for _, entry := range next {
			wantError(t, "IndexRemove", b.IndexRemove(t.Context(), index, entry), nil)
			walked, after = append(walked, entry), entry
		}
	}
	wantEntries(t, "the walk", walked, entries...)
	wantEntries(t, "what is left", page(t, b, index, "", 10))
}

// testCancelled: a context that is over is an error of its own kind and has no effect.
func testCancelled(t *testing.T, b storage.Backend) {
	key, index := unique("cancelled"), unique("cancelled index")
	version := put(t, b, key, "before")
	fill(t, b, index, "entry")
	for method, call := range map[string]func(ctx context.Context) error{
		"Get":     func(ctx context.Context) error { _, err := b.Get(ctx, key); return err },
		"GetMany": func(ctx context.Context) error { _, err := b.GetMany(ctx, []string{key}); return err },
		"Put": func(ctx context.Context) error {
			_, err := b.Put(ctx, storage.Put{Key: key, Data: []byte("after"), If: storage.Always, Operation: operation()})
			return err
		},
		"Delete":          func(ctx context.Context) error { return b.Delete(ctx, key) },
		"IndexAdd":        func(ctx context.Context) error { return b.IndexAdd(ctx, index, "more") },
		"IndexRemove":     func(ctx context.Context) error { return b.IndexRemove(ctx, index, "entry") },
		"IndexLen":        func(ctx context.Context) error { _, err := b.IndexLen(ctx, index); return err },
		"IndexPage":       func(ctx context.Context) error { _, err := b.IndexPage(ctx, index, "", 1); return err },
		"Count":           func(ctx context.Context) error { _, err := b.Count(ctx, counting(index, "a")); return err },
		"IndexPageBefore": func(ctx context.Context) error { _, err := b.IndexPageBefore(ctx, index, "", 1); return err },
	} {
		for range 20 { // that it has no effect must not be chance
			if err := call(cancelled(t)); err == nil || errors.Is(err, storage.ErrNotFound) || errors.Is(err, storage.ErrConflict) {
				t.Fatalf("%s with a cancelled context returned error %v; want one that says so", method, err)
			}
		}
	}
	wantStored(t, b, key, "before", version)
	wantEntries(t, "the index", page(t, b, index, "", 10), "entry")
}
