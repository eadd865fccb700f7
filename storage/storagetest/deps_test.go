package storagetest

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestDeps: the suites stand on storage and on the metadata in its records, so that the
// author of a driver needs no other database to run them.
func TestDeps(t *testing.T) {
	wantImports(t, ".", "gatehouse.example/metadata", "gatehouse.example/storage")
}

// wantImports checks what the files of a package import, tests excluded.
func wantImports(t *testing.T, dir string, allowed ...string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no Go files in %s: %v", dir, err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range parsed.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			standard := !strings.Contains(strings.Split(path, "/")[0], ".")
			if !standard && !slices.Contains(allowed, path) {
				t.Errorf("%s imports %s; this package may import the standard library and %q", file, path, allowed)
			}
		}
	}
}
