package acme

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestFolderIsClosed: the folder for keys is made so that only its user may enter it, and one that
// others may enter, or that is none, is refused.
func TestFolderIsClosed(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("folders of this system have no such permissions")
	}
	path := filepath.Join(t.TempDir(), "one", "acme")
	if s, err := NewFolder(path); err != nil || s == nil {
		t.Fatalf("a new folder: %v", err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("it is %v, %v", info, err)
	}
	for mode, want := range map[os.FileMode]bool{0o700: true, 0o710: false, 0o701: false, 0o755: false} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := NewFolder(path); (err == nil) != want || err != nil && !strings.Contains(err.Error(), "chmod 700 "+path) {
			t.Errorf("%o: %v", mode, err)
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := NewFolder(file); err == nil || !strings.HasPrefix(err.Error(), "acme-folder: ") {
		t.Errorf("a file: %v", err)
	}
}
