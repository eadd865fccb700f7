package local_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"gatehouse.example/storage"
	"gatehouse.example/storage/file"
	"gatehouse.example/storage/file/local"
	"gatehouse.example/storage/internal/testkit"
	"gatehouse.example/storage/storagetest"
)

// served is a store at a socket, with the server and the file behind it.
type served struct {
	storage.Backend
	server *local.Server
	file   *file.Backend
}

func (s served) Close() error {
	return errors.Join(s.Backend.Close(), s.server.Close(), s.file.Close())
}

func open(t *testing.T) storage.Backend {
	t.Helper()
	path := filepath.Join(testkit.Memory(t), "db")
	b, err := file.Open(file.Options{Path: path, Create: true})
	if err != nil {
		t.Fatal(err)
	}
	server, err := local.Serve(path, b)
	if err != nil {
		t.Fatal(err)
	}
	c, err := local.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	return served{c, server, b}
}

// TestSuite: through the socket the store keeps every rule that it keeps without it.
func TestSuite(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the server answers on Linux only")
	}
	t.Parallel()
	t.Run("Backend", func(t *testing.T) { storagetest.TestBackend(t, open) })
	t.Run("Store", func(t *testing.T) { storagetest.TestStore(t, open) })
}

// TestServerComesAndGoes: without a server there is ErrNoServer, also where one has left its socket;
// a server replaces such a socket, and refuses a folder that others may enter.
func TestServerComesAndGoes(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db")
	wantNoServer := func(when string) {
		t.Helper()
		if _, err := local.Open(t.Context(), path); !errors.Is(err, local.ErrNoServer) {
			t.Errorf("%s: %v", when, err)
		}
	}
	wantNoServer("before")
	b, err := file.Open(file.Options{Path: path, Create: true})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	folder := path + ".socket"
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "store"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	wantNoServer("what is there is no socket")
	server, err := local.Serve(path, b)
	if err != nil {
		t.Fatal(err)
	}
	c, err := local.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.IndexAdd(t.Context(), "index", "entry"), server.Close()); err != nil {
		t.Fatal(err)
	}
	wantNoServer("afterwards")
	if _, err := c.IndexLen(t.Context(), "index"); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("a read without a server: %v", err)
	}
	if err := c.IndexAdd(t.Context(), "index", "another"); !errors.Is(err, storage.ErrUnavailable) || errors.Is(err, storage.ErrUncertain) {
		t.Errorf("a write that was not sent: %v", err)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(folder, 1, 1); err != nil {
			t.Fatal(err)
		}
		if _, err := local.Serve(path, b); err == nil {
			t.Error("a folder of another user is used")
		}
		if _, err := local.Open(t.Context(), path); err == nil || errors.Is(err, local.ErrNoServer) || !strings.Contains(err.Error(), "does not belong to the owner") {
			t.Errorf("the folder belongs to another user: %v", err)
		}
		if err := os.Chown(folder, 0, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(folder, 0o750); err != nil {
		t.Fatal(err)
	}
	if _, err := local.Serve(path, b); err == nil {
		t.Error("a folder that others may enter is used")
	}
}
