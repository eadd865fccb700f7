package storage_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestKindsAreKnown wants each kind of record in the table of docs/design.md, and of each that
// is sealed a record in testdata, which every later program must read.
func TestKindsAreKnown(t *testing.T) {
	page, err := os.ReadFile("../docs/design.md")
	if err != nil {
		t.Fatal(err)
	}
	_, state, _ := strings.Cut(string(page), "\n## State\n")
	table, _, _ := strings.Cut(state, "\n\n**")
	s, _ := newStore(t)
	read := readers(s)
	for constant, kind := range kinds(t) {
		shown := map[string]string{"keyset": "key set", "catalogue": "catalogue state"}[kind]
		if shown == "" {
			shown = strings.ReplaceAll(kind, "-", " ")
		}
		if !inTable(table, shown) {
			t.Errorf("%s: the table of docs/design.md, State, has no %s", constant, shown)
		}
		if read[kind] == nil && !strings.HasPrefix(kind, "catalogue") {
			t.Errorf("%s: TestGolden reads no %s", constant, kind)
		}
	}
}

// inTable reports whether a name is in the first column of a table.
func inTable(table, name string) bool {
	for line := range strings.Lines(table) {
		if cells := strings.Split(line, "|"); len(cells) > 1 && slices.Contains(strings.Split(strings.TrimSpace(cells[1]), ", "), name) {
			return true
		}
	}
	return false
}

// kinds returns the constants of the package whose names begin with kind.
func kinds(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(node ast.Node) bool {
			if spec, ok := node.(*ast.ValueSpec); ok && strings.HasPrefix(spec.Names[0].Name, "kind") && len(spec.Values) == 1 {
				if value, ok := spec.Values[0].(*ast.BasicLit); ok && value.Kind == token.STRING {
					found[spec.Names[0].Name], _ = strconv.Unquote(value.Value)
				}
			}
			return true
		})
	}
	if len(found) < 10 {
		t.Errorf("only %d kinds were found: %v", len(found), found)
	}
	return found
}
