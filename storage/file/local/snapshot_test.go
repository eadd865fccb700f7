package local_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"gatehouse.example/storage"
	"gatehouse.example/storage/file"
	"gatehouse.example/storage/file/local"
)

// large is the size of an item that no buffer of a socket takes.
const large = 16 << 20

// servedLarge serves a store with a large item.
func servedLarge(t *testing.T, stall time.Duration) (b *file.Backend, s *copiedServer, from file.Source, folder string) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the server answers on Linux only")
	}
	folder = t.TempDir()
	path := filepath.Join(folder, "db")
	b, err := file.Open(file.Options{Path: path, Create: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	if _, err := b.Put(t.Context(), storage.Put{Key: "large", Data: bytes.Repeat([]byte("0123456789abcdef"), large/16), Operation: storage.Version{1}}); err != nil {
		t.Fatal(err)
	}
	s = &copiedServer{Backend: b, unsent: make(chan error, 1)}
	if s.Server, err = local.ServeWithStall(path, s, stall); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Server.Close() })
	c, err := local.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return b, s, c.(file.Source), folder
}

// copiedServer is a server of a store. It tells when a part of a copy could not be sent.
type copiedServer struct {
	*file.Backend
	*local.Server
	unsent chan error
}

func (s *copiedServer) Close() error { return s.Backend.Close() }

func (s *copiedServer) Snapshot(ctx context.Context, begin func(of time.Time, size int64) (io.Writer, error)) error {
	return s.Backend.Snapshot(ctx, func(of time.Time, size int64) (io.Writer, error) {
		to, err := begin(of, size)
		return sending{to, s.unsent}, err
	})
}

type sending struct {
	io.Writer
	unsent chan error
}

func (w sending) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	if err != nil {
		w.unsent <- err
	}
	return n, err
}

// atFirst is a source that calls do before the first part of a copy is taken.
type atFirst struct {
	file.Source
	do func()
}

func (a atFirst) Snapshot(ctx context.Context, begin func(of time.Time, size int64) (io.Writer, error)) error {
	return a.Source.Snapshot(ctx, func(of time.Time, size int64) (io.Writer, error) {
		to, err := begin(of, size)
		a.do()
		return to, err
	})
}

// TestBackupThroughServer: a backup that is made through the server has everything.
func TestBackupThroughServer(t *testing.T) {
	t.Parallel()
	b, _, from, folder := servedLarge(t, time.Minute)
	backup := filepath.Join(folder, "backup")
	began := time.Now().Truncate(time.Millisecond)
	made, err := file.Backup(t.Context(), backup, from, nil)
	if err != nil {
		t.Fatal(err)
	}
	if made.Items != 1 || made.Bytes < large || made.Backup.Before(began) || made.Backup.After(time.Now()) {
		t.Errorf("%+v, begun at %s", made, began)
	}
	opened, err := file.Open(file.Options{Path: backup, Restore: true})
	if err != nil {
		t.Fatal(err)
	}
	got, err := opened.Get(t.Context(), "large")
	want, wantErr := b.Get(t.Context(), "large")
	if err := errors.Join(err, wantErr, opened.Close()); err != nil || !bytes.Equal(got.Data, want.Data) || got.Version != want.Version {
		t.Errorf("the backup has another item (%v)", err)
	}
}

// TestBackupCut: whatever ends a copy early, the error says so, there is no backup, and the store is
// not held up.
func TestBackupCut(t *testing.T) {
	t.Parallel()
	wantNone := func(what string, folder string, err error, say string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), say) {
			t.Errorf("%s: %v; want %q", what, err, say)
		}
		if left, err := filepath.Glob(filepath.Join(folder, "*backup*")); err != nil || len(left) > 0 {
			t.Errorf("%s: left are %q, %v", what, left, err)
		}
	}
	t.Run("the server stops", func(t *testing.T) {
		t.Parallel()
		b, s, from, folder := servedLarge(t, time.Minute)
		stop := atFirst{from, func() {
			if err := errors.Join(s.Server.Close(), b.Close()); err != nil {
				t.Error(err)
			}
		}}
		_, err := file.Backup(t.Context(), filepath.Join(folder, "backup"), stop, nil)
		wantNone("the server stops", folder, err, "storage/file/local")
	})
	t.Run("the store is closed", func(t *testing.T) {
		t.Parallel()
		b, _, from, folder := servedLarge(t, time.Minute)
		ended := make(chan error, 1)
		closing := atFirst{from, func() {
			go func() { ended <- b.Close() }()
			for b.Delete(t.Context(), "nothing") == nil { // the first refusal shows that it began to close
			}
		}}
		_, err := file.Backup(t.Context(), filepath.Join(folder, "backup"), closing, nil)
		wantNone("the store is closed", folder, err, "the server gave up: the store was closed")
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Run("the reader stalls", func(t *testing.T) {
		t.Parallel()
		b, s, from, folder := servedLarge(t, 50*time.Millisecond)
		stalls := atFirst{from, func() {
			if err := <-s.unsent; !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("the server gave up because of %v", err)
			}
			if err := b.Close(); err != nil { // nothing is held any more
				t.Error(err)
			}
		}}
		_, err := file.Backup(t.Context(), filepath.Join(folder, "backup"), stalls, nil)
		wantNone("the reader stalls", folder, err, "the server ended the copy after ")
	})
	t.Run("the target is full", func(t *testing.T) {
		t.Parallel()
		b, _, from, folder := servedLarge(t, time.Minute)
		err := from.Snapshot(t.Context(), func(time.Time, int64) (io.Writer, error) { return nil, os.ErrInvalid })
		wantNone("the target is full", folder, err, os.ErrInvalid.Error())
		if err := b.Close(); err != nil { // nothing is held any more
			t.Error(err)
		}
	})
}

// TestNoSnapshot: a store that cannot be copied says so.
func TestNoSnapshot(t *testing.T) {
	t.Parallel()
	b, s, _, folder := servedLarge(t, time.Minute)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, "db")
	other, err := local.Serve(path, struct{ storage.Backend }{b})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	c, err := local.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := file.Backup(t.Context(), filepath.Join(folder, "backup"), c.(file.Source), nil); err == nil || !strings.Contains(err.Error(), "this store cannot be copied") {
		t.Error(err)
	}
}
