package dcr_test

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestDeps keeps this package between the storage and the authorization server. Of the
// import table's row only what is used today is allowed.
func TestDeps(t *testing.T) {
	allowed := []string{
		"gatehouse.example/metadata",
		"gatehouse.example/message/icon",
		"gatehouse.example/storage",
		"gatehouse.example/internal/safefetch", "gatehouse.example/message/icon",
		"gatehouse.example/internal/strictjson",
		"github.com/go-jose/go-jose/v4",
	}
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
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
			first, _, _ := strings.Cut(path, "/")
			if strings.Contains(first, ".") && !slices.Contains(allowed, path) {
				t.Errorf("%s imports %s: dcr knows clients and nothing of grants, pages or drivers, so besides the standard library it may import only %q", file, path, allowed)
			}
		}
	}
}
