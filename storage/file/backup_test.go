package file_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"gatehouse.example/storage"
	"gatehouse.example/storage/file"
)

// source is a [file.Source] made of a function.
type source func(ctx context.Context, begin func(of time.Time, size int64) (io.Writer, error)) error

func (s source) Snapshot(ctx context.Context, begin func(of time.Time, size int64) (io.Writer, error)) error {
	return s(ctx, begin)
}

// between returns b as a source that calls do when the moment of the copy is settled, and again
// when the first part of it is written.
func between(b *file.Backend, do func(part int)) file.Source {
	return source(func(ctx context.Context, begin func(of time.Time, size int64) (io.Writer, error)) error {
		return b.Snapshot(ctx, func(of time.Time, size int64) (io.Writer, error) {
			to, err := begin(of, size)
			do(0)
			return &paused{to: to, do: func() { do(1) }}, err
		})
	})
}

type paused struct {
	to io.Writer
	do func()
}

func (p *paused) Write(b []byte) (int, error) {
	n, err := p.to.Write(b)
	if do := p.do; do != nil {
		p.do = nil
		do()
	}
	return n, err
}

// wantOnly checks what a folder has: nothing is left behind.
func wantOnly(t *testing.T, folder string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if !slices.Equal(got, names) {
		t.Errorf("the folder has %q; want %q", got, names)
	}
}

// TestBackup: a backup has everything, is marked, readable for its user only, and never replaces a
// file.
func TestBackup(t *testing.T) {
	t.Parallel()
	folder := memory(t)
	path, backup := filepath.Join(folder, "gatehouse.db"), filepath.Join(folder, "z-backup.db")
	want := sample(t, path)
	moment := time.Date(2031, 5, 6, 7, 8, 9, 123e6, time.UTC)
	b, err := file.Open(file.Options{Path: path, Now: func() time.Time { return moment.Add(456 * time.Microsecond) }})
	if err != nil {
		t.Fatal(err)
	}
	var done, all int64
	made, err := file.Backup(t.Context(), backup, b, func(part, total int64) {
		if part < done || part > total || all != 0 && total != all {
			t.Errorf("after %d of %d, %d of %d is done", done, all, part, total)
		}
		done, all = part, total
	})
	if err != nil {
		t.Fatal(err)
	}
	found, err := file.Inspect(backup, nil)
	if err != nil || found != made || !found.Backup.Equal(moment) || found.Items != int64(len(want.Items)) {
		t.Errorf("the backup is %+v, %v; Backup returned %+v", found, err, made)
	}
	if info, err := os.Stat(backup); err != nil || info.Mode() != 0o600 || info.Size() != made.Bytes {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	before, err := os.ReadFile(backup)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.Backup(t.Context(), backup, b, nil); !errors.Is(err, fs.ErrExist) || !strings.Contains(err.Error(), backup) {
		t.Errorf("a backup over a file: %v", err)
	}
	if _, err := file.Backup(t.Context(), filepath.Join(folder, "nowhere", "backup.db"), b, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a backup into no folder: %v", err)
	}
	late := between(b, func(part int) {
		if part == 0 {
			if err := os.WriteFile(filepath.Join(folder, "late.db"), []byte("of others"), 0o600); err != nil {
				t.Error(err)
			}
		}
	})
	if _, err := file.Backup(t.Context(), filepath.Join(folder, "late.db"), late, nil); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a backup to where another file has appeared: %v", err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if after, err := os.ReadFile(backup); err != nil || !bytes.Equal(after, before) {
		t.Errorf("the backup was changed (%v)", err)
	}
	if other, err := os.ReadFile(filepath.Join(folder, "late.db")); err != nil || string(other) != "of others" {
		t.Errorf("the file of others has %d bytes (%v)", len(other), err)
	}
	wantOnly(t, folder, "gatehouse.db", "late.db", "z-backup.db")
	opened, err := file.Open(file.Options{Path: backup, Restore: true})
	if err != nil {
		t.Fatal(err)
	}
	got, err := contentOf(t, opened)
	if err := errors.Join(err, opened.Close()); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("the backup has another content (%v)", err)
	}
}

// TestBackupUnderLoad: while writers go on, a backup has everything that was acknowledged before it
// began, nothing that was begun after its moment, and nothing half.
func TestBackupUnderLoad(t *testing.T) {
	t.Parallel()
	const writers, burst = 8, 40
	folder := memory(t)
	b := openAt(t, folder)
	write := func(writer, n int) error {
		put := storage.Put{
			Key: fmt.Sprint("key ", writer, " ", n), Data: bytes.Repeat([]byte{byte(n)}, 500), Operation: storage.Version{1, byte(writer), byte(n)},
			Listed: []storage.Listing{{Index: fmt.Sprint("index ", n%3), Entry: fmt.Sprint("entry ", writer, " ", n)}},
		}
		_, err := b.Put(t.Context(), put)
		return err
	}
	acknowledged := make([]int, writers)
	bursts := func() { // writers at once, to the last acknowledgement
		errs := make(chan error)
		for w := range writers {
			go func() {
				var err error
				for range burst {
					err = errors.Join(err, write(w, acknowledged[w]))
					acknowledged[w]++
				}
				errs <- err
			}()
		}
		for range writers {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
	}
	bursts()
	before := slices.Clone(acknowledged)
	backup := filepath.Join(folder, "backup.db")
	if _, err := file.Backup(t.Context(), backup, between(b, func(int) { bursts() }), nil); err != nil {
		t.Fatal(err)
	}
	if acknowledged[0] != 3*burst {
		t.Fatalf("%d writes of each writer", acknowledged[0])
	}
	bursts()
	opened, err := file.Open(file.Options{Path: backup, Restore: true})
	if err != nil {
		t.Fatal(err)
	}
	got, err := contentOf(t, opened)
	if err := errors.Join(err, opened.Close(), b.Close()); err != nil {
		t.Fatal(err)
	}
	var want []string
	entries := map[string]bool{}
	for w, n := range before {
		for i := range n {
			want = append(want, fmt.Sprint("key ", w, " ", i))
			entries[fmt.Sprint("entry ", w, " ", i)] = true
		}
	}
	slices.Sort(want)
	if keys := slices.Sorted(maps.Keys(got.Items)); !slices.Equal(keys, want) {
		t.Errorf("the backup has %d items; want %d", len(keys), len(want))
	}
	listed := 0
	for index, page := range got.Entries {
		listed += len(page)
		if got.Lens[index] != len(page) {
			t.Errorf("%s has %d entries and says %d", index, len(page), got.Lens[index])
		}
		for _, entry := range page {
			if !entries[entry] {
				t.Errorf("%s has %q, whose item is not there", index, entry)
			}
		}
	}
	if listed != len(want) {
		t.Errorf("%d entries; want %d", listed, len(want))
	}
}

// TestBackupBroken: what is not a whole copy is refused, and leaves nothing.
func TestBackupBroken(t *testing.T) {
	t.Parallel()
	folder := memory(t)
	path := filepath.Join(folder, "gatehouse.db")
	sample(t, path)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lost := errors.New("the connection is lost")
	sends := func(data []byte, size int, err error) file.Source {
		return source(func(_ context.Context, begin func(of time.Time, size int64) (io.Writer, error)) error {
			to, beginErr := begin(time.Now(), int64(size))
			if beginErr != nil {
				return beginErr
			}
			_, writeErr := to.Write(data)
			return errors.Join(writeErr, err)
		})
	}
	changed := bytes.ReplaceAll(good, []byte("a long entry"), []byte("a lone entry")) // free pages have some too
	for what, from := range map[string]file.Source{
		"cut off":             sends(good[:len(good)/2], len(good), lost),
		"cut off, and silent": sends(good[:len(good)/2], len(good), nil),
		"longer":              sends(good, len(good)-pageSize, nil),
		"changed":             sends(changed, len(changed), nil),
		"empty":               sends(nil, 0, nil),
		"other":               sends([]byte("notes"), 5, nil),
		"nothing":             source(func(context.Context, func(time.Time, int64) (io.Writer, error)) error { return nil }),
		"too much for a disk": sends(good, 1<<60, nil),
	} {
		if _, err := file.Backup(t.Context(), filepath.Join(folder, "backup.db"), from, nil); err == nil || !strings.Contains(err.Error(), "backup.db") {
			t.Errorf("%s: %v", what, err)
		}
		wantOnly(t, folder, "gatehouse.db")
	}
}

// TestBackupGivenUp: a backup ends with its context, and with the store, and leaves nothing.
func TestBackupGivenUp(t *testing.T) {
	t.Parallel()
	folder := memory(t)
	b := openAt(t, folder)
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped")
	backup := filepath.Join(folder, "backup.db")
	if _, err := file.Backup(ctx, backup, between(b, func(int) { cancel(stopped) }), nil); !errors.Is(err, stopped) {
		t.Errorf("with its context: %v", err)
	}
	closed := make(chan error)
	_, err := file.Backup(t.Context(), backup, between(b, func(part int) {
		if part == 0 {
			go func() { closed <- b.Close() }()
			<-b.Closing()
		}
	}), nil)
	if err == nil || !strings.Contains(err.Error(), "the store was closed") {
		t.Errorf("with the store: %v", err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	wantOnly(t, folder, "gatehouse.db")
}
