// Package crash_test runs a store in a file on a disk that crashes. It is a module of its own, so
// that nobody else needs the driver of such a disk.
package crash_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"

	"gatehouse.example/storage"
	"gatehouse.example/storage/file"
	"gatehouse.example/storage/file/internal/journal"
)

var crashes = flag.Int("crashes", 20, "how often the machine loses power, and four times how often an fsync fails")

const (
	loadEnv = "CRASH_LOAD"
	name    = "gatehouse.db"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if folder := os.Getenv(loadEnv); folder != "" {
		load(filepath.Join(folder, name))
		return
	}
	os.Exit(m.Run())
}

// load writes until a write fails, and says what a store answers then.
func load(path string) {
	b, err := file.Open(file.Options{Path: path, Create: true})
	if err != nil {
		fmt.Println("not opened:", err)
		return
	}
	ctx := context.Background()
	w := &journal.Writer{Backend: b, Out: os.Stdout}
	if err := w.Run(ctx); !errors.Is(err, storage.ErrUncertain) && !errors.Is(err, storage.ErrUnavailable) {
		fmt.Println("wrong: a write failed with", err)
	}
	if _, err := b.Get(ctx, "key/1"); !errors.Is(err, storage.ErrUnavailable) {
		fmt.Println("wrong: a read after the failure returned", err)
	}
	if err := b.Delete(ctx, "key/1"); !errors.Is(err, storage.ErrUnavailable) {
		fmt.Println("wrong: a write after the failure returned", err)
	}
	if err := b.Close(); err != nil {
		fmt.Println("wrong: closing returned", err)
	}
}

// run mounts a disk, runs a process that writes to it until it fails, and returns what the process
// said that is not in the journal.
func run(t *testing.T, d *disk, j *journal.Journal) (others []string) {
	t.Helper()
	folderPath := t.TempDir()
	server, err := fs.Mount(folderPath, &folder{disk: d}, &fs.Options{MountOptions: fuse.MountOptions{DirectMountStrict: true}})
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.EACCES) {
		t.Skip("this needs root and /dev/fuse: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), loadEnv+"="+folderPath)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err == nil {
		err = child.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	others, wrong := j.Read(out)
	if err := errors.Join(wrong, child.Wait(), server.Unmount()); err != nil {
		t.Fatal(err, others)
	}
	return others
}

// check opens what is left in a place that does not crash.
func check(t *testing.T, image map[string][]byte, j *journal.Journal) {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, image[name], 0o600); err != nil {
		t.Fatal(err)
	}
	b, err := file.Open(file.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := j.Check(t.Context(), b); err != nil {
		t.Fatal(err)
	}
}

// TestPowerLoss: however a machine loses power, what was acknowledged is there, no item was
// replaced twice, and the file opens. Of what was not fsynced, the name of the file included, any
// part may be lost.
func TestPowerLoss(t *testing.T) {
	image, j := map[string][]byte{}, journal.New()
	for i := range *crashes {
		d := newDisk(image)
		d.onlySafe = i%2 == 0
		d.crashAt = 1 + mathrand.IntN(30)
		if i%4 != 0 {
			d.crashAt = 1 + mathrand.IntN(1500)
		}
		others := run(t, d, j)
		for _, line := range others {
			if strings.HasPrefix(line, "wrong") {
				t.Fatal(line)
			}
		}
		if d.image == nil {
			t.Fatal("the process ended before the crash: ", others)
		}
		if image = d.image; len(image[name]) == 0 {
			if j.Acknowledged() > 0 {
				t.Fatal("the file is lost")
			}
			image = map[string][]byte{} // it was never complete
			continue
		}
		check(t, image, j)
	}
	t.Log(*crashes, "crashes", j.Acknowledged(), "acknowledged writes")
}

// TestFsyncFails: after an fsync that failed, the process answers nothing more, and what it had
// acknowledged is there when the file is opened again.
func TestFsyncFails(t *testing.T) {
	j := journal.New()
	image := map[string][]byte{}
	for range *crashes / 4 {
		d := newDisk(image)
		d.failAt = 8 + mathrand.IntN(60)
		for _, line := range run(t, d, j) {
			t.Error(line)
		}
		if t.Failed() {
			return
		}
		image = map[string][]byte{name: bytes.Clone(d.files[name].safe)} // what the disk has, not the memory
		check(t, image, j)
	}
	t.Log(*crashes/4, "failures", j.Acknowledged(), "acknowledged writes")
}
