package trail_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
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

// TestNoTrail: a file that is no trail is a fault and no chain; one whose first lines are missing is
// both.
func TestNoTrail(t *testing.T) {
	p := newPlace(t)
	p.whole()
	_, later, _ := strings.Cut(string(p.read()), "\n")
	for what, test := range map[string]struct {
		text   string
		chains int
	}{
		"nothing":                  {"", 0},
		"a text":                   {"no trail", 0},
		"lines":                    {"no\ntrail\n", 0},
		"without its first line":   {later, 1},
		"lines before those lines": {"no\ntrail\n" + later, 1},
	} {
		p.write([]byte(test.text))
		v, err := trail.Verify(t.Context(), trail.Verifying{Keys: []trail.Key{p.key}}, p.path)
		if err != nil || len(v.Faults) == 0 || len(v.Chains) != test.chains {
			t.Errorf("%s: %d chains (want %d), faults %v, %v", what, len(v.Chains), test.chains, v.Faults, err)
		}
	}
}

// TestFilesThatCannotBeRead: an error says once whose it is and which file it is about.
func TestFilesThatCannotBeRead(t *testing.T) {
	folder := t.TempDir()
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = io.WriteString(w, "no trail")
	_ = w.Close()
	short := filepath.Join(folder, "short.gz")
	if err := os.WriteFile(short, packed.Bytes()[:packed.Len()-8], 0o600); err != nil {
		t.Fatal(err)
	}
	ignore := func(trail.Found) error { return nil }
	for what, read := range map[string]func(path string) error{
		"verify": func(path string) error { _, err := trail.Verify(t.Context(), trail.Verifying{}, path); return err },
		"search": func(path string) error { return trail.Search(trail.Filter{}, []string{path}, ignore) },
		"trace":  func(path string) error { _, err := trail.Trace("a", []string{path}); return err },
		"follow": func(path string) error {
			return trail.Follow(trail.Filter{}, path, 1, func() error { return io.EOF }, func(trail.Line) error { return nil })
		},
	} {
		for path, said := range map[string]string{folder: " is a folder: name the files in it", short: ": line 1: unexpected EOF", folder + "/none": "no such file"} {
			if path == short && what == "follow" {
				continue // it reads what grows, which is not compressed
			}
			err := read(path)
			if err == nil || strings.Count(err.Error(), "trail: ") != 1 || strings.Count(err.Error(), path) != 1 || !strings.HasPrefix(err.Error(), "trail: ") || !strings.Contains(err.Error(), said) {
				t.Errorf("%s %s: %v", what, path, err)
			}
		}
	}
}
