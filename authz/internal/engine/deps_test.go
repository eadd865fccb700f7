package engine_test

import (
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"gatehouse.example/internal/deptest"
)

// TestDeps keeps the wall around fosite on the inside: the records, the keys and fosite.
func TestDeps(t *testing.T) {
	deptest.Check(t, ".", deptest.Rule{Allowed: []string{
		"gatehouse.example/metadata", "gatehouse.example/storage", "gatehouse.example/authz/internal/keyring",
		"github.com/ory/fosite", "github.com/ory/fosite/handler/oauth2", "github.com/ory/fosite/handler/pkce", "github.com/ory/fosite/storage",
	}})
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
		for _, imported := range deptest.Imports(t, path) {
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
