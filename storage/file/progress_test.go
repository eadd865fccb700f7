package file_test

import (
	"path/filepath"
	"testing"

	"gatehouse.example/storage/file"
)

// TestOpenTellsProgress: whoever opens a large file is told how much of it was checked.
func TestOpenTellsProgress(t *testing.T) {
	t.Parallel()
	path := filepath.Join(memory(t), "gatehouse.db")
	sample(t, path)
	var last, all int64
	b, err := file.Open(file.Options{Path: path, Progress: func(done, total int64) {
		if done < last || done > total {
			t.Errorf("after %d, %d of %d is done", last, done, total)
		}
		last, all = done, total
	}})
	if err != nil {
		t.Fatal(err)
	}
	if all == 0 {
		t.Error("nothing was told")
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}
