//go:build e2e

package middleware_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestConsumer builds a module that imports this package and no other one of this module, with an
// empty module cache, and counts the downloaded modules. It needs a module proxy.
func TestConsumer(t *testing.T) {
	cache := t.TempDir()
	run := func(arguments ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "go", arguments...)
		cmd.Dir = filepath.Join("testdata", "consumer")
		// -modcacherw lets the test remove its cache; GOWORK=off and GOTOOLCHAIN=local keep
		// everything else of this machine out.
		cmd.Env = append(os.Environ(), "GOMODCACHE="+cache, "GOFLAGS=-modcacherw", "GOWORK=off", "GOTOOLCHAIN=local")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(arguments, " "), err, out)
		}
	}
	run("mod", "tidy", "-diff") // also resolves the imports of our tests, as a consumer's tidy does
	run("build", "-o", filepath.Join(t.TempDir(), "consumer"), ".")

	var zips []string
	err := filepath.WalkDir(cache, func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".zip") {
			zips = append(zips, strings.TrimPrefix(path, filepath.Join(cache, "cache", "download")))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(zips) != 1 || !strings.HasPrefix(zips[0], "/github.com/go-jose/go-jose/v4/") {
		t.Errorf("a module that protects a server downloads %q, want go-jose alone", zips)
	}
}
