package authz_test

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// importsOf returns the imports of the package's own files, by file. It parses, because
// a test that asks the go command may be served from the test cache.
func importsOf(t *testing.T) map[string][]string {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	imports := map[string][]string{}
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
			imports[file] = append(imports[file], path)
		}
	}
	if len(imports) == 0 {
		t.Fatal("no files")
	}
	return imports
}

// TestDeps keeps the authorization server above its rooms: it may use ours below it, the
// router in routes.go and argon2 for passwords. What knows fosite, go-jose or Redis is
// behind a wall of its own.
func TestDeps(t *testing.T) {
	ours := []string{"metadata", "storage", "dcr", "templates", "internal/", "authz/internal/"}
	external := map[string][]string{ // by file
		"github.com/gorilla/mux":     {"routes.go"},
		"golang.org/x/crypto/argon2": {"password.go"},
	}
	for file, paths := range importsOf(t) {
		for _, path := range paths {
			first, _, _ := strings.Cut(path, "/")
			below, inModule := strings.CutPrefix(path, "gatehouse.example/")
			switch {
			case !strings.Contains(first, "."): // the standard library
				if path == "testing" || path == "net/http/httptest" {
					t.Errorf("%s imports %s, which is for tests", file, path)
				}
			case inModule:
				if !slices.ContainsFunc(ours, func(room string) bool {
					return below == room || strings.HasSuffix(room, "/") && strings.HasPrefix(below, room)
				}) {
					t.Errorf("%s imports %s: authz may import %v only", file, path, ours)
				}
			case !slices.Contains(external[path], file):
				t.Errorf("%s imports %s: only %v may, see the import table in docs/design.md", file, path, external)
			}
		}
	}
}
