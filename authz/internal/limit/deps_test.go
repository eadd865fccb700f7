package limit

import (
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"
)

// TestDeps keeps the package free of everything but the standard library and storage.
func TestDeps(t *testing.T) {
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !strings.HasSuffix(file.Name(), ".go") || strings.HasSuffix(file.Name(), "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file.Name(), nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range parsed.Imports {
			path := strings.Trim(spec.Path.Value, `"`)
			if strings.Contains(path, ".") && path != "gatehouse.example/storage" {
				t.Errorf("%s imports %s: a limit knows counts and time, and at most where to keep them", file.Name(), path)
			}
		}
	}
}
