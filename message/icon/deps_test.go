package icon

import (
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestDeps keeps the package at its place in the house.
func TestDeps(t *testing.T) {
	allowed := []string{"gatehouse.example/message", "gatehouse.example/message/icon", "gatehouse.example/internal/safefetch", "golang.org/x/image/draw", "golang.org/x/image/webp"}
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
			if strings.Contains(root, ".") && !slices.Contains(allowed, path) {
				t.Errorf("%s imports %s: message/icon may import message, internal/safefetch and x/image only", e.Name(), path)
			}
		}
	}
}
