package file_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gatehouse.example/storage"
	"gatehouse.example/storage/file"
)

// TestBackupOnFullDisk: a disk that is too small for a backup, or becomes it meanwhile, is named, has
// nothing of the backup afterwards, and the store goes on.
func TestBackupOnFullDisk(t *testing.T) {
	t.Parallel()
	small, large := smallDisk(t, "8m"), memory(t)
	b := openAt(t, large)
	if err := write(t, b, "large", 4<<20); err != nil {
		t.Fatal(err)
	}
	backup, filler := filepath.Join(small, "backup.db"), filepath.Join(small, "filler")
	full := between(b, func(part int) {
		if part == 0 {
			fillDisk(t, filler)
		}
	})
	if _, err := file.Backup(t.Context(), backup, full, nil); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), backup) {
		t.Errorf("a disk that fills up: %v", err)
	}
	wantOnly(t, small, "filler")
	if _, err := file.Backup(t.Context(), backup, b, nil); err == nil || !strings.Contains(err.Error(), "bytes left, and the copy needs") {
		t.Errorf("a full disk: %v", err)
	}
	wantOnly(t, small, "filler")
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if _, err := file.Backup(t.Context(), backup, b, nil); err != nil {
		t.Errorf("with space again: %v", err)
	}
	if err := errors.Join(write(t, b, "after", 10), b.Close(), file.Verify(backup)); err != nil {
		t.Error(err)
	}
}

// TestBackupLeavesRoom: a backup that would take the last space of the store's own disk is given up.
func TestBackupLeavesRoom(t *testing.T) {
	t.Parallel()
	folder := smallDisk(t, "100m")
	b := openAt(t, folder)
	backup := filepath.Join(folder, "backup.db")
	for _, c := range []struct {
		filler string
		size   int
		before storage.Room
	}{{"filler", 60 << 20, storage.RoomEnough}, {"more", 35 << 20, storage.RoomTight}} {
		if room := b.Room(); room != c.before {
			t.Errorf("room %v before %s", room, c.filler)
		}
		fills := between(b, func(part int) {
			if part == 0 {
				if err := os.WriteFile(filepath.Join(folder, c.filler), make([]byte, c.size), 0o600); err != nil {
					t.Error(err)
				}
				b.Housekeep(t.Context())
			}
		})
		if _, err := file.Backup(t.Context(), backup, fills, nil); err == nil || !strings.Contains(err.Error(), "nearly full during the copy") {
			t.Errorf("a disk that fills up with room %v: %v", c.before, err)
		}
	}
	if err := os.Remove(filepath.Join(folder, "more")); err != nil {
		t.Fatal(err)
	}
	b.Housekeep(t.Context())
	if _, err := file.Backup(t.Context(), backup, b, nil); err != nil {
		t.Errorf("a disk that was nearly full before, with space for the backup: %v", err)
	}
	wantOnly(t, folder, "backup.db", "filler", "gatehouse.db")
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

// backupEnv names the folder in the environment of a process that is killed during a backup.
const backupEnv = "STORAGE_FILE_BACKUP"

// TestBackupKilled: a process that is killed during a backup leaves no file under its name, and does
// not keep the next one from being made. In the process itself it begins a backup and waits.
func TestBackupKilled(t *testing.T) {
	if folder := os.Getenv(backupEnv); folder != "" {
		b := openAt(t, folder)
		_, _ = file.Backup(t.Context(), filepath.Join(folder, "backup.db"), between(b, func(part int) {
			if fmt.Println("part", part); part == 1 {
				select {}
			}
		}), nil)
		return
	}
	t.Parallel()
	folder := t.TempDir()
	b := openAt(t, folder)
	if err := errors.Join(write(t, b, "kept", 100_000), b.Close()); err != nil {
		t.Fatal(err)
	}
	child := exec.Command(os.Args[0], "-test.run=^TestBackupKilled$")
	child.Env = append(os.Environ(), backupEnv+"="+folder)
	out, err := child.StdoutPipe()
	if err == nil {
		err = child.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	var part int
	for part < 1 && err == nil {
		_, err = fmt.Fscanf(out, "part %d\n", &part)
	}
	if err := errors.Join(err, child.Process.Kill()); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // killed
	backup := filepath.Join(folder, "backup.db")
	if _, err := os.Lstat(backup); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after the death there is a backup: %v", err)
	}
	drafts, err := filepath.Glob(filepath.Join(folder, ".backup.db.new-*"))
	if err != nil || len(drafts) != 1 {
		t.Fatalf("drafts %q, %v", drafts, err)
	}
	if err := file.Verify(drafts[0]); !errors.Is(err, file.ErrDamaged) {
		t.Errorf("what was left is taken for whole: %v", err)
	}
	b = openAt(t, folder)
	if _, err := file.Backup(t.Context(), backup, b, nil); err != nil {
		t.Errorf("the next backup: %v", err)
	}
	if item, err := b.Get(t.Context(), "kept"); err != nil || len(item.Data) != 100_000 {
		t.Errorf("%d bytes, %v", len(item.Data), err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

// TestBackupIntoUnreadable: where it cannot be told whether the name of a backup will survive a power
// loss, because nobody may read the folder, there is no backup and an error.
func TestBackupIntoUnreadable(t *testing.T) {
	if folder := os.Getenv(backupEnv); folder != "" {
		b := openAt(t, folder)
		_, err := file.Backup(t.Context(), filepath.Join(folder, "drop", "backup.db"), b, nil)
		fmt.Println("backup:", errors.Join(err, b.Close()))
		return
	}
	folder, err := os.MkdirTemp("", "gatehouse") // which others may enter, unlike t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(folder)
	drop, program := filepath.Join(folder, "drop"), filepath.Join(folder, "test")
	binary, err := os.ReadFile(os.Args[0])
	if err := errors.Join(err, os.WriteFile(program, binary, 0o755), os.Mkdir(drop, 0o300)); err != nil {
		t.Fatal(err)
	}
	child := exec.Command(program, "-test.run=^TestBackupIntoUnreadable$")
	child.Env, child.Dir = append(os.Environ(), backupEnv+"="+folder), folder
	if os.Geteuid() == 0 { // who may read everything
		child.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		if err := errors.Join(os.Chown(folder, 65534, 65534), os.Chown(drop, 65534, 65534)); err != nil {
			t.Fatal(err)
		}
	}
	said, err := child.CombinedOutput()
	if err != nil || !strings.Contains(string(said), "permission denied") {
		t.Errorf("it said %q, %v", said, err)
	}
	if err := os.Chmod(drop, 0o700); err != nil {
		t.Fatal(err)
	}
	wantOnly(t, drop)
}
