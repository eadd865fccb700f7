package file_test

import (
	"path/filepath"
	"testing"

	"gatehouse.example/storage"
	"gatehouse.example/storage/catalogue/cataloguetest"
	"gatehouse.example/storage/file"
	"gatehouse.example/storage/storagetest"
)

// open opens a new file for one test.
func open(t *testing.T) storage.Backend {
	t.Helper()
	b, err := file.Open(file.Options{Path: filepath.Join(t.TempDir(), "gatehouse.db"), Create: true})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestSuite(t *testing.T) {
	t.Parallel()
	t.Run("Backend", func(t *testing.T) { storagetest.TestBackend(t, open) })
	t.Run("Concurrency", func(t *testing.T) { storagetest.TestConcurrency(t, open) })
	t.Run("Store", func(t *testing.T) { storagetest.TestStore(t, open) })
	t.Run("Catalogue", func(t *testing.T) { cataloguetest.TestCatalogue(t, open) })
}
