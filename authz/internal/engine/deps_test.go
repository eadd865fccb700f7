package engine_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func importsOf(t *testing.T, file string) []string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, spec := range parsed.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	return paths
}

// TestDeps keeps the wall around fosite on the inside: the records, the keys and fosite.
func TestDeps(t *testing.T) {
	allowed := []string{
		"gatehouse.example/metadata", "gatehouse.example/storage", "gatehouse.example/authz/internal/keyring",
		"github.com/ory/fosite", "github.com/ory/fosite/handler/oauth2", "github.com/ory/fosite/handler/pkce", "github.com/ory/fosite/storage",
	}
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, file := range files {
		for _, path := range importsOf(t, file) {
			first, _, _ := strings.Cut(path, "/")
			if !strings.HasSuffix(file, "_test.go") && strings.Contains(first, ".") && !slices.Contains(allowed, path) {
				t.Errorf("%s imports %s: it may import %v only, see the import table in docs/design.md", file, path, allowed)
			}
		}
	}
}

// TestSoleImporter keeps the wall around fosite on the outside: in the whole module
// nothing else imports it, in tests neither, nor the version of go-jose that comes with it.
func TestSoleImporter(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	seen := 0
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (strings.HasPrefix(entry.Name(), ".") && path != root && entry.Name() != ".." || entry.Name() == "node_modules") {
			return filepath.SkipDir
		}
		dir := filepath.ToSlash(filepath.Dir(path))
		if filepath.Ext(path) != ".go" || strings.HasSuffix(dir, "authz/internal/engine") {
			return nil
		}
		seen++
		for _, imported := range importsOf(t, path) {
			if strings.HasPrefix(imported, "github.com/ory/") || strings.HasPrefix(imported, "github.com/go-jose/go-jose/v3") {
				t.Errorf("%s imports %s: only authz/internal/engine may", path, imported)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen < 20 {
		t.Errorf("only %d files were looked at under %s", seen, root)
	}
}
