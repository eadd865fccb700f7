package middleware_test

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestDeps keeps the weight of this package where it is: whoever protects a server
// downloads one module besides this one. Test files count, because the go command
// resolves what they import for everybody who tidies a module that uses the package.
func TestDeps(t *testing.T) {
	ours := []string{"gatehouse.example/metadata", "gatehouse.example/message"}
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	tests := append(slices.Clone(ours), "gatehouse.example/middleware", "gatehouse.example/middleware/middlewaretest")
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
			list := ours
			if strings.HasSuffix(file, "_test.go") {
				list = tests
			}
			jose := path == "github.com/go-jose/go-jose/v4" || strings.HasPrefix(path, "github.com/go-jose/go-jose/v4/")
			first, _, _ := strings.Cut(path, "/")
			if strings.Contains(first, ".") && !jose && !slices.Contains(list, path) {
				t.Errorf("%s imports %s: a protected server would have to download it; allowed are the standard library, go-jose and %q", file, path, list)
			}
			if path == "testing" && !strings.HasSuffix(file, "_test.go") {
				t.Errorf("%s imports testing", file)
			}
		}
	}
}
