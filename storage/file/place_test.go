package file_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/bits"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"gatehouse.example/storage"
	"gatehouse.example/storage/file"
)

// TestPlaces: what is wrong with a path is said in a sentence that names it, and nothing is made
// or changed there.
func TestPlaces(t *testing.T) {
	places := map[string]struct {
		lay  func(t *testing.T, path string) error
		want string
		is   error
	}{
		"nothing":                  {nothing, "no such file", fs.ErrNotExist},
		"no folder":                {func(_ *testing.T, path string) error { return os.Remove(filepath.Dir(path)) }, "its folder", fs.ErrNotExist},
		"a folder":                 {func(_ *testing.T, path string) error { return os.Mkdir(path, 0o700) }, "it is a folder", nil},
		"a fifo":                   {func(_ *testing.T, path string) error { return syscall.Mkfifo(path, 0o600) }, "not a regular file", nil},
		"empty":                    {func(_ *testing.T, path string) error { return os.WriteFile(path, nil, 0o600) }, "it is empty", file.ErrDamaged},
		"text":                     {func(_ *testing.T, path string) error { return os.WriteFile(path, make([]byte, 9999), 0o600) }, "another program's", file.ErrDamaged},
		"readable by all":          {readableByAll, "chmod 600", nil},
		"an open folder":           {func(_ *testing.T, path string) error { return os.Chmod(filepath.Dir(path), 0o777) }, "chmod o-w", nil},
		"a link to nobody":         {func(_ *testing.T, path string) error { return os.Symlink("nowhere", path) }, "symbolic link", nil},
		"a link to no folder":      {func(_ *testing.T, path string) error { return os.Symlink("nowhere/gatehouse.db", path) }, "symbolic link", nil},
		"a link to an open folder": {linkToOpenFolder, "chmod o-w", nil},
		"another program":          {func(_ *testing.T, path string) error { return otherDatabase(path, "theirs", "") }, "another program", nil},
		"a later format":           {func(_ *testing.T, path string) error { return otherDatabase(path, "meta", "gatehouse 2") }, `format "gatehouse 2"`, nil},
		"no format":                {withoutFormat, "its format is missing", file.ErrDamaged},
		"in use":                   {inUse, "another process has the file open", file.ErrInUse},
	}
	for name, tt := range places {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := filepath.Join(memory(t), "state")
			path := filepath.Join(folder, "gatehouse.db")
			if err := errors.Join(os.Mkdir(folder, 0o700), tt.lay(t, path)); err != nil {
				t.Fatal(err)
			}
			before := tree(folder)
			create := name != "nothing"
			b, err := file.Open(file.Options{Path: path, Create: create})
			if err == nil {
				_ = b.Close()
				t.Fatal("it was opened")
			}
			if !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), path) || tt.is != nil && !errors.Is(err, tt.is) {
				t.Errorf("%v; want %q and the path", err, tt.want)
			}
			if after := tree(folder); after != before {
				t.Errorf("the folder has %q; before %q", after, before)
			}
		})
	}
}

func nothing(*testing.T, string) error { return nil }

func tree(folder string) (all string) {
	_ = filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err == nil {
			info, _ := d.Info()
			all += path + " " + info.Mode().String() + "\n"
		}
		return nil
	})
	return all
}

func readableByAll(t *testing.T, path string) error {
	b, err := file.Open(file.Options{Path: path, Create: true})
	if err != nil {
		return err
	}
	return errors.Join(b.Close(), os.Chmod(path, 0o644))
}

// linkToOpenFolder makes a link to a link to a file that everybody may replace.
func linkToOpenFolder(t *testing.T, path string) error {
	folder := filepath.Join(filepath.Dir(path), "open")
	if err := os.Mkdir(folder, 0o700); err != nil {
		return err
	}
	return errors.Join(openAt(t, folder).Close(), os.Chmod(folder, 0o777), os.Symlink("open/gatehouse.db", filepath.Join(filepath.Dir(path), "next.db")),
		os.Symlink("next.db", path))
}

func otherDatabase(path, bucket, format string) error {
	db, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		return err
	}
	return errors.Join(db.Update(func(tx *bolt.Tx) error {
		b, err := tx.CreateBucket([]byte(bucket))
		if err != nil {
			return err
		}
		// The digest is what a later format may have there: longer, and without this checksum.
		return errors.Join(b.Put([]byte("format"), []byte(format)), b.Put([]byte("digest"), make([]byte, 36)))
	}), db.Close())
}

// withoutFormat makes a store that lacks the name of its format.
func withoutFormat(t *testing.T, path string) error {
	if err := openAt(t, filepath.Dir(path)).Close(); err != nil {
		return err
	}
	db, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		return err
	}
	return errors.Join(db.Update(func(tx *bolt.Tx) error { return tx.Bucket([]byte("meta")).Delete([]byte("format")) }), db.Close())
}

func inUse(t *testing.T, path string) error {
	b, err := file.Open(file.Options{Path: path, Create: true})
	if err == nil {
		t.Cleanup(func() { _ = b.Close() })
	}
	return err
}

// TestFileOfOthers: a process that is not root refuses a file of somebody else.
func TestFileOfOthers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make a file of somebody else")
	}
	folder, err := os.MkdirTemp("", "gatehouse")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "gatehouse.db")
	b := openAt(t, folder)
	if err := errors.Join(b.Close(), os.Chmod(folder, 0o755)); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(folder, "test")
	binary, err := os.ReadFile(os.Args[0])
	if err == nil {
		err = os.WriteFile(program, binary, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	other := exec.Command(program)
	other.Env, other.Dir = append(os.Environ(), loadEnv+"="+path), folder
	other.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, _ := other.Output()
	if !strings.Contains(string(out), "it belongs to the user 0, and this process runs as 65534") {
		t.Errorf("another user was told %q", out)
	}
}

// TestLink: a symbolic link leads to the file.
func TestLink(t *testing.T) {
	folder := memory(t)
	if err := openAt(t, folder).Close(); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(memory(t), "link.db")
	if err := os.Symlink(filepath.Join(folder, "gatehouse.db"), link); err != nil {
		t.Fatal(err)
	}
	b, err := file.Open(file.Options{Path: link})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if _, err := file.Open(file.Options{Path: filepath.Join(folder, "gatehouse.db")}); !errors.Is(err, file.ErrInUse) {
		t.Errorf("opened under its other name too: %v", err)
	}
	if err := file.Verify(link); !errors.Is(err, file.ErrInUse) {
		t.Errorf("Verify of an open file: %v", err)
	}
}

// TestRemoved: a server whose file was removed or replaced acknowledges nothing more.
func TestRemoved(t *testing.T) {
	for name, take := range map[string]func(path string) error{
		"removed": os.Remove,
		"replaced": func(path string) error {
			return errors.Join(os.Rename(path, path+".old"), os.WriteFile(path, nil, 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := memory(t)
			b := openAt(t, folder)
			defer b.Close()
			if err := take(filepath.Join(folder, "gatehouse.db")); err != nil {
				t.Fatal(err)
			}
			b.Housekeep(t.Context())
			_, err := b.Put(t.Context(), storage.Put{Key: "k", Operation: storage.Version{1}})
			if !errors.Is(err, storage.ErrUnavailable) || !strings.Contains(err.Error(), "while it was open") {
				t.Errorf("a write returned %v", err)
			}
		})
	}
}

// TestRemovedInSweep: while much that is over is removed, it is noticed as well that the file is gone.
func TestRemovedInSweep(t *testing.T) {
	folder, w := memory(t), newWatch()
	var removes atomic.Bool
	b, err := file.Open(file.Options{Path: filepath.Join(folder, "gatehouse.db"), Create: true, Now: func() time.Time {
		if removes.CompareAndSwap(true, false) { // by the first step of the sweep
			if err := os.Remove(filepath.Join(folder, "gatehouse.db")); err != nil {
				t.Error(err)
			}
		}
		return w.now()
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	var all sync.WaitGroup
	for writer := range 64 { // they share transactions
		all.Go(func() {
			for i := range 4 * file.SweepStep / 64 {
				put := storage.Put{Key: fmt.Sprint(writer, " ", i), Operation: storage.Version{1}, TTL: time.Minute}
				if _, err := b.Put(t.Context(), put); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	w.move(time.Minute)
	removes.Store(true)
	b.Housekeep(t.Context())
	if _, err := b.Put(t.Context(), storage.Put{Key: "k", Operation: storage.Version{1}}); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("a write returned %v", err)
	}
}

// TestMadeAtOnce: of many processes that make a file at the same time, one has it.
func TestMadeAtOnce(t *testing.T) {
	path := filepath.Join(memory(t), "gatehouse.db")
	opened := make(chan *file.Backend)
	for range 4 {
		go func() {
			b, err := file.Open(file.Options{Path: path, Create: true})
			if err != nil && !errors.Is(err, file.ErrInUse) {
				t.Error(err)
			}
			opened <- b
		}()
	}
	n := 0
	for range 4 {
		if b := <-opened; b != nil {
			n++
			defer b.Close()
		}
	}
	if left, _ := os.ReadDir(filepath.Dir(path)); n != 1 || len(left) != 1 {
		t.Errorf("%d have it open, and the folder has %d files", n, len(left))
	}
}

// TestMadeWithoutRandomness: a file without a lineage is not made, and leaves nothing behind.
func TestMadeWithoutRandomness(t *testing.T) {
	t.Parallel()
	folder := memory(t)
	b, err := file.Open(file.Options{Path: filepath.Join(folder, "gatehouse.db"), Create: true, Rand: strings.NewReader("short")})
	if err == nil {
		_ = b.Close()
	}
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("it returned %v", err)
	}
	wantOnly(t, folder)
}

// TestAppearing: a file that another process makes during the check is there or not. It is not
// taken for a symbolic link.
func TestAppearing(t *testing.T) {
	folder := memory(t)
	if err := openAt(t, folder).Close(); err != nil {
		t.Fatal(err)
	}
	made, path := filepath.Join(folder, "gatehouse.db"), filepath.Join(folder, "appears.db")
	done := make(chan error)
	go func() {
		var err error
		for range 3000 {
			err = errors.Join(err, os.Link(made, path), os.Remove(path))
		}
		done <- err
	}()
	for {
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			return
		default:
		}
		if err := file.CheckPlace(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%v", err)
		}
	}
}

// TestSpaceOf: what a system reports about a disk is never taken for more than it is, even where
// the blocks that are left are fewer than none.
func TestSpaceOf(t *testing.T) {
	for _, c := range []struct {
		blocks int64
		size   uint64
		want   int64
	}{
		{0, 4096, 0}, {3, 4096, 12288}, {-3, 4096, 0}, {math.MinInt64, math.MaxUint64, 0}, {math.MaxInt64, 1, math.MaxInt64},
		{math.MaxInt64, 2, math.MaxInt64}, {math.MaxInt64, 4096, math.MaxInt64}, {1 << 51, 1 << 12, math.MaxInt64},
	} {
		if got := file.SpaceOf(c.blocks, c.size); got != c.want {
			t.Errorf("%d blocks of %d bytes are %d bytes, want %d", c.blocks, c.size, got, c.want)
		}
	}
	if bits.UintSize == 64 && file.MaxSize != 64<<30 || bits.UintSize == 32 && file.MaxSize != 1<<30 {
		t.Error("a file may not grow as far as its documentation says")
	}
}
