package file_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gatehouse.example/storage"
	"gatehouse.example/storage/file"
)

// TestInspect: what a file has is counted, and progress ends with all of it.
func TestInspect(t *testing.T) {
	t.Parallel()
	path := filepath.Join(memory(t), "gatehouse.db")
	want := sample(t, path)
	entries := 0
	for _, n := range want.Lens {
		entries += n
	}
	var last, all int64
	got, err := file.Inspect(path, func(done, total int64) {
		if done < last || done > total || all != 0 && total != all {
			t.Errorf("after %d of %d, %d of %d is done", last, all, done, total)
		}
		last, all = done, total
	})
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got.Format != "gatehouse 1" || got.Bytes != info.Size() || got.Items != int64(len(want.Items)) ||
		got.Lists != int64(len(want.Lens)) || got.Entries != int64(entries) || got.Lineage == "" || !got.Backup.IsZero() {
		t.Errorf("%+v; want %d items, %d lists and %d entries in %d bytes", got, len(want.Items), len(want.Lens), entries, info.Size())
	}
	if all == 0 {
		t.Error("no progress was told")
	}
}

// TestInspectNamesDamage: the error says on which page and in what kind of record the damage is,
// but not whose record it is.
func TestInspectNamesDamage(t *testing.T) {
	t.Parallel()
	folder := memory(t)
	b := openAt(t, folder)
	put := storage.Put{Key: "gatehouse:grant:id-of-somebody", Data: bytes.Repeat([]byte("what the record says"), 200), Operation: storage.Version{1}}
	if _, err := b.Put(t.Context(), put); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, "gatehouse.db")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	overwrite(t, path, bytes.ReplaceAll(data, put.Data, bytes.Repeat([]byte("what the record SAYS"), 200)))
	_, err = file.Inspect(path, nil)
	if !errors.Is(err, file.ErrDamaged) {
		t.Fatal(err)
	}
	for _, part := range []string{path, "in the part items", `a key that begins with "gatehouse:grant:"`, "on page "} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%v; want %q in it", err, part)
		}
	}
	if strings.Contains(err.Error(), "somebody") {
		t.Errorf("%v names the record", err)
	}
}
