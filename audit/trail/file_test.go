package trail_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"gatehouse.example/audit/trail"
)

// lockOf returns the path of the lock of a file.
func (p *place) lockOf() string {
	return filepath.Join(filepath.Dir(p.path), "."+filepath.Base(p.path)+".lock")
}

// TestFilesArePrivate: nobody else may read who did what, nor hold the lock.
func TestFilesArePrivate(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("permissions are others there")
	}
	p := newPlace(t)
	p.open()
	for _, path := range []string{p.path, p.lockOf()} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has the permissions %v, %v", path, info.Mode(), err)
		}
	}
}

// TestLockIsNoLink: a link in the place of the lock is not followed, so that whoever may write to the
// folder makes no file elsewhere.
func TestLockIsNoLink(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links are others there")
	}
	p := newPlace(t)
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	if err := os.Symlink(elsewhere, p.lockOf()); err != nil {
		t.Fatal(err)
	}
	if _, err := trail.Open(t.Context(), p.config()); err == nil {
		t.Error("a link is taken for the lock")
	}
	if _, err := os.Stat(elsewhere); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file was made behind the link: %v", err)
	}
}

// TestKeysOfTrails: a short secret makes no key, and what one secret makes for two contexts are two
// keys.
func TestKeysOfTrails(t *testing.T) {
	if _, err := trail.NewKey([]byte(strings.Repeat("k", 31)), "a"); err == nil {
		t.Error("31 bytes make a key")
	}
	one, oneErr := trail.NewKey([]byte(strings.Repeat("k", 32)), "a")
	other, otherErr := trail.NewKey([]byte(strings.Repeat("k", 32)), "b")
	if oneErr != nil || otherErr != nil || one.Name() == other.Name() {
		t.Errorf("the keys of two contexts are %s and %s, %v, %v", one.Name(), other.Name(), oneErr, otherErr)
	}
}

// TestHeadOfAnotherChain: a head of another chain says nothing about the end of a file, whatever its
// number is.
func TestHeadOfAnotherChain(t *testing.T) {
	p := newPlace(t)
	p.whole()
	for place, head := range p.heads.kept {
		head.Chain, head.Seq, head.At = "another", 100, time.Time{}
		p.heads.kept[place] = head
	}
	if err := p.open().Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(p.log.String(), "is missing") {
		t.Errorf("the log has %s", p.log)
	}
	p.want("with a head of another chain", nil)
}

// TestHeadBeforeTheFile: where the store knows an earlier line than the first one that was given, the
// rest of the chain is as good as before.
func TestHeadBeforeTheFile(t *testing.T) {
	p := newPlace(t)
	tr := p.open()
	tr.Record(signedIn(1))
	if err := tr.Keep(t.Context()); err != nil {
		t.Fatal(err)
	}
	early := p.heads.copy()
	p.rename(".1")
	tr.Reopen()
	tr.Record(signedIn(2))
	if err := tr.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.heads.kept = early
	p.want("the last file alone", nil)
}
