package safefetch

import (
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"
)

// TestDeps keeps the package at the bottom of the house: it imports the standard
// library alone, so that every package may fetch with it.
func TestDeps(t *testing.T) {
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), e.Name(), nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range file.Imports {
			path, _ := strconv.Unquote(spec.Path.Value)
			root, _, _ := strings.Cut(path, "/")
			if strings.Contains(root, ".") && path != "gatehouse.example/internal/safefetch" {
				t.Errorf("%s imports %s: internal/safefetch may import the standard library only", e.Name(), path)
			}
		}
	}
}
