package file_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gatehouse.example/storage"
	"gatehouse.example/storage/file"
)

// smallDisk mounts a disk of some megabytes.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	folder := t.TempDir()
	if err := syscall.Mount("gatehouse", folder, "tmpfs", 0, "mode=700,size="+size); err != nil {
		t.Skip("this needs root, to mount a small disk: ", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(folder, syscall.MNT_DETACH) })
	return folder
}

// TestFullDisk: on a full disk writes are refused as such, whether the disk was known to be full or a
// write finds out; reads go on, and so do removals where they can. With space again, nothing needs
// to be opened again.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	folder := smallDisk(t, "32m")
	b := openAt(t, folder)
	if err := write(t, b, "before", 1000); err != nil {
		t.Fatal(err)
	}
	wantFull := func(what string, size int) {
		t.Helper()
		if err := write(t, b, what, size); !errors.Is(err, storage.ErrFull) || !strings.Contains(err.Error(), folder) {
			t.Errorf("%s: a write returned %v", what, err)
		}
		if item, err := b.Get(t.Context(), "before"); err != nil || len(item.Data) != 1000 {
			t.Errorf("%s: a read returned %v", what, err)
		}
	}
	aSecondLater := b.NoHousekeeping()
	wantFull("a write that finds out", 40<<20)
	wantFull("the same second", 10)
	if room := b.Room(); room != storage.RoomNone {
		t.Errorf("room %v", room)
	}
	aSecondLater()
	b.Housekeep(t.Context())
	if err := write(t, b, "small", 10); err != nil {
		t.Errorf("a small write, for which there is space: %v", err)
	}
	filler := filepath.Join(folder, "filler")
	fillDisk(t, filler)
	b.Housekeep(t.Context())
	wantFull("known to be full", 10)
	if err := b.Delete(t.Context(), "small"); err != nil && !errors.Is(err, storage.ErrFull) {
		t.Errorf("Delete on a full disk: %v", err)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	b.Housekeep(t.Context())
	if err := errors.Join(write(t, b, "after", 1000), b.Delete(t.Context(), "small"), b.Close()); err != nil {
		t.Errorf("with space again: %v", err)
	}
	if err := file.Verify(filepath.Join(folder, "gatehouse.db")); err != nil {
		t.Error(err)
	}
	fillDisk(t, filler)
	b = openAt(t, folder) // a full disk can be read
	if _, err := b.Get(t.Context(), "after"); err != nil {
		t.Error(err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if _, err := file.Open(file.Options{Path: filepath.Join(folder, "new.db"), Create: true}); err == nil || !strings.Contains(err.Error(), "bytes left") {
		t.Errorf("a new file on a full disk: %v", err)
	}
}

// TestSpaceBehindLink: the disk that counts is that of the file, not that of a symbolic link to it.
func TestSpaceBehindLink(t *testing.T) {
	t.Parallel()
	small, large := smallDisk(t, "32m"), smallDisk(t, "128m")
	for target, c := range map[string]struct {
		link string
		want storage.Room
	}{small: {large, storage.RoomTight}, large: {small, storage.RoomEnough}} {
		if err := openAt(t, target).Close(); err != nil {
			t.Fatal(err)
		}
		link := filepath.Join(c.link, "link.db")
		if err := os.Symlink(filepath.Join(target, "gatehouse.db"), link); err != nil {
			t.Fatal(err)
		}
		b, err := file.Open(file.Options{Path: link})
		if err != nil {
			t.Fatal(err)
		}
		if got := b.Room(); got != c.want {
			t.Errorf("through a link on another disk: room %v, want %v", got, c.want)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
	fillDisk(t, filepath.Join(small, "filler"))
	b, err := file.Open(file.Options{Path: filepath.Join(small, "link.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := write(t, b, "a full disk has the link only", 1000); err != nil {
		t.Error(err)
	}
}

func fillDisk(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
}

// TestReadOnlyDisk: a file on a disk that is read-only is refused when it is opened, in words.
func TestReadOnlyDisk(t *testing.T) {
	folder := smallDisk(t, "32m")
	if err := openAt(t, folder).Close(); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("", folder, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, "gatehouse.db")
	_, err := file.Open(file.Options{Path: path})
	if !errors.Is(err, syscall.EROFS) || !strings.Contains(err.Error(), path+": read-only file system") {
		t.Error(err)
	}
	if err := file.Verify(path); err != nil {
		t.Errorf("Verify: %v", err)
	}
}
