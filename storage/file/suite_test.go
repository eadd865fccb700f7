package file_test

import (
	"path/filepath"
	"testing"

	"gatehouse.example/storage"
	"gatehouse.example/storage/catalogue/cataloguetest"
	"gatehouse.example/storage/file"
	"gatehouse.example/storage/internal/testkit"
	"gatehouse.example/storage/storagetest"
)

// memory returns a folder for tests that write a lot and are not about what survives.
func memory(t testing.TB) string {
	t.Helper()
	return testkit.Memory(t)
}

// openAt opens the file in a folder, which it makes if there is none.
func openAt(t testing.TB, folder string) *file.Backend {
	t.Helper()
	b, err := file.Open(file.Options{Path: filepath.Join(folder, "gatehouse.db"), Create: true})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// open opens a new file for one test. When the test has closed it, everything in it must fit.
func open(t *testing.T) storage.Backend {
	t.Helper()
	folder := memory(t)
	t.Cleanup(func() {
		if err := file.Verify(filepath.Join(folder, "gatehouse.db")); err != nil {
			t.Error(err)
		}
	})
	return openAt(t, folder)
}

func TestSuite(t *testing.T) {
	t.Parallel()
	t.Run("Backend", func(t *testing.T) { storagetest.TestBackend(t, open) })
	t.Run("Concurrency", func(t *testing.T) { storagetest.TestConcurrency(t, open) })
	t.Run("Store", func(t *testing.T) { storagetest.TestStore(t, open) })
	t.Run("Catalogue", func(t *testing.T) { cataloguetest.TestCatalogue(t, open) })
}

func write(t *testing.T, b storage.Backend, key string, size int) error {
	t.Helper()
	_, err := b.Put(t.Context(), storage.Put{Key: key, Data: make([]byte, size), If: storage.Always, Operation: storage.Version{1}})
	return err
}
