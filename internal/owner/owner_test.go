package owner_test

import (
	"os"
	"path/filepath"
	"testing"

	"gatehouse.example/internal/owner"
)

// TestOf: a file belongs to whom it was given, and what is no file on a disk to nobody known.
func TestOf(t *testing.T) {
	if os.Geteuid() < 0 {
		t.Skip("files of this system have no such users")
	}
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	want := os.Geteuid()
	if want == 0 {
		want = 12345
		if err := os.Chown(path, want, -1); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if user, known := owner.Of(info); user != want || !known {
		t.Errorf("it belongs to %d, %t; want %d", user, known, want)
	}
	if _, known := owner.Of(nowhere{info}); known {
		t.Error("the owner of what has none is known")
	}
}

// nowhere is a file of which the system knows nothing.
type nowhere struct{ os.FileInfo }

func (nowhere) Sys() any { return nil }
