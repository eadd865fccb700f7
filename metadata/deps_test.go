package metadata_test

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestDeps keeps this package at the bottom of the house: its own files import the
// standard library and the strict JSON decoder. Its tests may also import the package
// itself, and nothing that would make a user of the module download more.
func TestDeps(t *testing.T) {
	allowed := []string{"gatehouse.example/internal/strictjson"}
	inTests := append(slices.Clone(allowed), "gatehouse.example/metadata")
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range parsed.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			list := allowed
			if strings.HasSuffix(file, "_test.go") {
				list = inTests
			}
			first, _, _ := strings.Cut(path, "/")
			if strings.Contains(first, ".") && !slices.Contains(list, path) {
				t.Errorf("%s imports %s: metadata is what every other package builds on, so it may import only the standard library and %q", file, path, list)
			}
			if path == "testing" && !strings.HasSuffix(file, "_test.go") {
				t.Errorf("%s imports testing", file)
			}
		}
	}
}
