package storagetest

import (
	"slices"
	"testing"

	"gatehouse.example/storage"
)

// testIndexes: every index with entries is listed under its prefix, however small the pages, and no
// item is. A backend that does not list them is not asked.
func testIndexes(t *testing.T, b storage.Backend) {
	lister, ok := b.(storage.IndexLister)
	if !ok {
		t.Skip("this backend does not list its indexes")
	}
	prefix := unique("indexes*[a]") + ":"
	put(t, b, prefix+"item", "data")
	fill(t, b, prefix+"emptied", "entry")
	wantError(t, "IndexRemove", b.IndexRemove(t.Context(), prefix+"emptied", "entry"), nil)
	fill(t, b, unique("another"), "entry")
	var want []string
	for _, name := range []string{"", "a", "a:b", "a\x00", "\xff", "é"} {
		want = append(want, prefix+name)
		fill(t, b, prefix+name, "one", "two")
	}
	slices.Sort(want)
	for _, limit := range []int{1, 2, 100} {
		var got []string
		for cursor := ""; ; {
			names, next, err := lister.Indexes(t.Context(), prefix, cursor, limit)
			if err != nil {
				t.Fatalf("Indexes: %v", err)
			}
			got = append(got, names...)
			if cursor = next; cursor == "" {
				break
			}
		}
		slices.Sort(got)
		if got = slices.Compact(got); !slices.Equal(got, want) {
			t.Errorf("in pages of %d, Indexes returned %q; want %q", limit, got, want)
		}
	}
}
