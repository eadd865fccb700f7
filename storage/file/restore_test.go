package file_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gatehouse.example/storage"
	"gatehouse.example/storage/file"
)

// backupOf makes a store with some items, and a backup of it, and returns the lineage of the store.
func backupOf(t *testing.T, folder string, keys ...string) (path string, before storage.Lineage) {
	t.Helper()
	b := openAt(t, folder)
	for i, key := range keys {
		put := storage.Put{Key: key, Operation: storage.Version{1, byte(i)}, TTL: time.Hour, Listed: []storage.Listing{{Index: "index 0", Entry: key}}}
		if _, err := b.Put(t.Context(), put); err != nil {
			t.Fatal(err)
		}
	}
	before, err := b.Lineage(t.Context())
	path = filepath.Join(folder, "backup.db")
	if err == nil {
		_, err = file.Backup(t.Context(), path, b, nil)
	}
	if err := errors.Join(err, b.Close()); err != nil {
		t.Fatal(err)
	}
	return path, before
}

// TestRestore: a backup opens only for who says so, and then has another lineage, without the sessions
// and sign-ins of the old one. From then on it is a store like any other.
func TestRestore(t *testing.T) {
	t.Parallel()
	folder := memory(t)
	path, before := backupOf(t, folder, "gatehouse:session:one", "gatehouse:session:two", "gatehouse:transaction:one",
		"gatehouse:sessions:one", "gatehouse:grant:one", "gatehouse:once:one")
	marked, err := file.Inspect(path, nil)
	if err != nil || marked.Backup.IsZero() || marked.Lineage != before || marked.Items != 6 {
		t.Errorf("%+v, %v; want a backup of lineage %q", marked, err, before)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	refused := new(file.BackupError)
	if _, err := file.Open(file.Options{Path: path, Create: true}); !errors.As(err, &refused) || !refused.Moment.Equal(marked.Backup) || refused.Path != path {
		t.Errorf("without Restore: %v", err)
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, data) {
		t.Errorf("a refused backup was changed (%v)", err)
	}
	b, err := file.Open(file.Options{Path: path, Restore: true})
	if err != nil {
		t.Fatal(err)
	}
	lineage, err := b.Lineage(t.Context())
	if err != nil || lineage == before || !strings.HasPrefix(string(lineage), "backup ") || !b.Restored().Equal(marked.Backup) {
		t.Errorf("the lineage is %q after %q, restored from %s, %v", lineage, before, b.Restored(), err)
	}
	keys, _, err := b.Scan(t.Context(), "", "", 100)
	if err != nil || strings.Join(keys, " ") != "gatehouse:grant:one gatehouse:once:one gatehouse:sessions:one" {
		t.Errorf("what is left: %q, %v", keys, err)
	}
	if _, err := b.Put(t.Context(), storage.Put{Key: "code", Operation: storage.Version{7}, On: before}); !errors.Is(err, storage.ErrLineage) {
		t.Errorf("a write on the old lineage: %v", err)
	}
	if _, err := b.Put(t.Context(), storage.Put{Key: "code", Operation: storage.Version{7}, On: lineage}); err != nil {
		t.Errorf("a write on the new one: %v", err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if whole, err := file.Inspect(path, nil); err != nil || !whole.Backup.IsZero() || whole.Lineage != lineage {
		t.Errorf("afterwards the file is %+v, %v", whole, err)
	}
	b, err = file.Open(file.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	if again, err := b.Lineage(t.Context()); again != lineage || err != nil || !b.Restored().IsZero() {
		t.Errorf("opened again, the lineage is %q, restored from %s, %v", again, b.Restored(), err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

// TestRestoreTwice: each time that the same backup becomes a store, that one has a lineage of its own.
func TestRestoreTwice(t *testing.T) {
	t.Parallel()
	folder := memory(t)
	path, _ := backupOf(t, folder, "gatehouse:grant:one")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[storage.Lineage]bool{}
	for range 2 {
		overwrite(t, path, data)
		b, err := file.Open(file.Options{Path: path, Restore: true})
		if err != nil {
			t.Fatal(err)
		}
		lineage, err := b.Lineage(t.Context())
		if err := errors.Join(err, b.Close()); err != nil {
			t.Fatal(err)
		}
		seen[lineage] = true
	}
	if len(seen) != 2 {
		t.Errorf("lineages %v", seen)
	}
}

// TestRestoreWithoutRandomness: when no lineage can be drawn, the backup stays as it is.
func TestRestoreWithoutRandomness(t *testing.T) {
	t.Parallel()
	path, before := backupOf(t, memory(t), "gatehouse:session:one")
	if _, err := file.Open(file.Options{Path: path, Restore: true, Rand: strings.NewReader("short")}); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("Open returned %v", err)
	}
	if after, err := file.Inspect(path, nil); err != nil || after.Backup.IsZero() || after.Lineage != before || after.Items != 1 {
		t.Errorf("the backup is %+v, %v", after, err)
	}
}

// TestDamagedMark: a mark that is damaged does not make a store of a backup.
func TestDamagedMark(t *testing.T) {
	t.Parallel()
	path, _ := backupOf(t, memory(t))
	found, err := file.Inspect(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	of := []byte(found.Backup.Format("2006-01-02T15:04:05"))
	overwrite(t, path, bytes.ReplaceAll(data, of, append([]byte("1999"), of[4:]...)))
	if _, err := file.Open(file.Options{Path: path, Restore: true}); !errors.Is(err, file.ErrDamaged) {
		t.Errorf("Open returned %v", err)
	}
}
