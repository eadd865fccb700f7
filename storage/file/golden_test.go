package file_test

import (
	"encoding/binary"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"gatehouse.example/storage"
	"gatehouse.example/storage/file"
)

var makeGolden = flag.Bool("file.make", false, "make the file of the present format in testdata, if there is none")

// goldenItems are what every file in testdata has: items with and without an end, one that takes
// several pages, and entries of an index. The time of the clock is that of newWatch.
func goldenItems() []storage.Put {
	long := make([]byte, 10_000)
	for i := range long {
		long[i] = byte(i)
	}
	return []storage.Put{
		{Key: "item", Data: []byte("value"), Operation: storage.Version{1}, Listed: []storage.Listing{{Index: "people", Entry: "ada"}, {Index: "people", Entry: "reader"}}},
		{Key: "ends", Data: []byte("soon"), Operation: storage.Version{2}, TTL: time.Hour},
		{Key: "long", Data: long, Operation: storage.Version{3}},
		{Key: "empty", Operation: storage.Version{4}},
	}
}

// TestOldFiles: a file of every format that was ever released opens, with what is in it. Files in
// testdata are never written again.
func TestOldFiles(t *testing.T) {
	w := newWatch()
	if path := filepath.Join("testdata", "format-1.db"); *makeGolden {
		b, err := file.Open(file.Options{Path: path, Create: true, Now: w.now, Rand: zeros{}})
		if err != nil {
			t.Fatal(err)
		}
		for _, put := range goldenItems() {
			if _, err := b.Put(t.Context(), put); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(path)
		if err == nil {
			err = os.Truncate(path, int64(binary.NativeEndian.Uint64(data[16+40:])*pageSize)) // nothing was written behind that
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	old, err := filepath.Glob("testdata/format-*.db")
	if err != nil || len(old) == 0 {
		t.Fatal("no old files", err)
	}
	for _, name := range old {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		folder := memory(t)
		if err := os.WriteFile(filepath.Join(folder, "gatehouse.db"), data, 0o600); err != nil {
			t.Fatal(err)
		}
		w := newWatch()
		b := w.open(t, folder)
		for _, want := range goldenItems() {
			got, err := b.Get(t.Context(), want.Key)
			if err != nil || string(got.Data) != string(want.Data) || got.Version != want.Operation {
				t.Errorf("%s: %s is %d bytes, %v", name, want.Key, len(got.Data), err)
			}
		}
		people, err := b.IndexPage(t.Context(), "people", "", 10)
		n, lenErr := b.IndexLen(t.Context(), "people")
		if lineage, _ := b.Lineage(t.Context()); err != nil || lenErr != nil || n != 2 || len(people) != 2 || people[0] != "ada" || lineage != "file 00000000000000000000000000000000" {
			t.Errorf("%s: people %q %d, lineage %q, %v %v", name, people, n, lineage, err, lenErr)
		}
		w.move(2 * time.Hour)
		b.Housekeep(t.Context())
		if keys, _, err := b.Scan(t.Context(), "", "", 10); err != nil || len(keys) != 3 {
			t.Errorf("%s: after the end of one, %q are there, %v", name, keys, err)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}

// zeros is a source of a lineage that a test knows.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }
