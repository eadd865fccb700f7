package middlewaretest_test

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestDeps keeps the fake issuer as light as the middleware: tests of third parties
// import it, and must not download more than the server that they test.
func TestDeps(t *testing.T) {
	allowed := []string{"gatehouse.example/metadata", "gatehouse.example/middleware", "gatehouse.example/middleware/middlewaretest", "github.com/go-jose/go-jose/v4"}
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
			if first, _, _ := strings.Cut(path, "/"); strings.Contains(first, ".") && !slices.Contains(allowed, path) {
				t.Errorf("%s imports %s: everybody's tests would have to download it; allowed are the standard library and %q", file, path, allowed)
			}
		}
	}
}
