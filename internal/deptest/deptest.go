// Package deptest holds a package to what it may import.
//
// Each guarded package has a test of its own that calls [Check], so that a change to the
// package runs it: a central test that asks the go command is served from the test cache.
// The rules are the import table in docs/design.md.
//
//	func TestDeps(t *testing.T) {
//		deptest.Check(t, ".", deptest.Rule{Allowed: []string{"gatehouse.example/metadata"}})
//	}
package deptest

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Rule is what the files of a package may import besides the standard library. A path that
// ends in /... stands for itself and everything below.
type Rule struct {
	// Allowed is for every file.
	Allowed []string
	// OnlyIn allows more to single files, by path.
	OnlyIn map[string]string
	// InTests allows more to test files, where this package is allowed anyway. Nil means
	// that tests may import what they like.
	InTests []string
	// ForTests says that the package is used by tests: it may import testing.
	ForTests bool
}

// Check fails the test for every import of the package in dir that the rule does not allow.
func Check(t testing.TB, dir string, r Rule) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no Go files in %s: %v", dir, err)
	}
	for _, file := range files {
		for _, path := range Imports(t, file) {
			if !r.allows(filepath.Base(file), path) {
				t.Errorf("%s imports %s; besides the standard library it may import %q: see the import table in docs/design.md", file, path, r.Allowed)
			}
		}
	}
}

// Imports returns what a file imports.
func Imports(t testing.TB, file string) (paths []string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	for _, spec := range parsed.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	return paths
}

func (r Rule) allows(file, path string) bool {
	test := strings.HasSuffix(file, "_test.go")
	first, _, _ := strings.Cut(path, "/")
	switch {
	case !strings.Contains(first, "."): // the standard library
		return test || r.ForTests || path != "testing" && path != "net/http/httptest"
	case covered(path, r.Allowed), r.OnlyIn[path] == file:
		return true
	case test:
		return r.InTests == nil || path == "gatehouse.example/internal/deptest" || covered(path, r.InTests)
	}
	return false
}

func covered(path string, by []string) bool {
	return slices.ContainsFunc(by, func(pattern string) bool {
		parent, below := strings.CutSuffix(pattern, "/...")
		return path == parent || below && strings.HasPrefix(path, parent+"/")
	})
}
