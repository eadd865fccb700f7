package storagetest

import (
	"slices"
	"testing"

	"gatehouse.example/storage"
)

// testIndexPageBefore: pages from the end have the order of the others, reversed, whatever bytes
// the entries have and wherever a page begins.
func testIndexPageBefore(t *testing.T, b storage.Backend) {
	index := unique("before")
	wantEntries(t, "an index that nobody made", pageBefore(t, b, index, "", 10))
	entries := []string{
		"\x00", "\x00\x00", "\x00\xff", "\r\n", "(", "(a", "+", "-", "[", "[a", "a", "a\x00", "ab", "abc", "é", everyByte()[1:], "\x80", "\xff", "\xff\xff",
	}
	fill(t, b, index, entries...)
	slices.Sort(entries)
	slices.Reverse(entries)
	wantEntries(t, "all at once", pageBefore(t, b, index, "", 100), entries...)
	for i, entry := range entries {
		wantEntries(t, name("before %q", entry), pageBefore(t, b, index, entry, 100), entries[i+1:]...)
		wantEntries(t, name("one before %q", entry), pageBefore(t, b, index, entry, 1), entries[i+1:][:min(1, len(entries)-i-1)]...)
	}
	wantEntries(t, "before what is no entry", pageBefore(t, b, index, "aa", 2), "a\x00", "a")
	wantEntries(t, "before the first", pageBefore(t, b, index, "\x00", 2))
	wantEntries(t, "none wanted", pageBefore(t, b, index, "", 0))
	wantEntries(t, "fewer than none wanted", pageBefore(t, b, index, "b", -1))
	many := unique("many before")
	var all []string
	for i := range 1500 {
		all = append(all, name("%04d", i))
	}
	fill(t, b, many, all...)
	wantEntries(t, "the last of many", pageBefore(t, b, many, "", 3), "1499", "1498", "1497")
	wantEntries(t, "in the middle of many", pageBefore(t, b, many, "0769", 3), "0768", "0767", "0766")
	slices.Reverse(all)
	wantEntries(t, "many", pageBefore(t, b, many, "", 2000), all...)
}

func pageBefore(t *testing.T, b storage.Backend, index, before string, limit int) []string {
	t.Helper()
	entries, err := b.IndexPageBefore(t.Context(), index, before, limit)
	if err != nil {
		t.Fatalf("IndexPageBefore: %v", err)
	}
	return entries
}
