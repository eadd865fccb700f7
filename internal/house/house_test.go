package house_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gatehouse.example/internal/deptest"
	"gatehouse.example/internal/house"
)

func TestDeps(t *testing.T) { deptest.CheckTests(t) }

// this returns the module that this package belongs to.
func this(t *testing.T) *house.House {
	t.Helper()
	root, _, err := house.Here()
	if err != nil {
		t.Fatal(err)
	}
	h, err := house.Read(root)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// TestImportTable compares this module with the table in docs/design.md.
func TestImportTable(t *testing.T) {
	for _, fault := range this(t).Check() {
		t.Error(fault)
	}
}

// TestSizes holds files and functions to the limits. There are no exceptions.
func TestSizes(t *testing.T) {
	for _, e := range this(t).Above() {
		t.Errorf("%s: %s", e.Place, e.What)
	}
}

const table = "# Design\n\n| no | import | table | here |\n|---|---|---|---|\n\n## The house\n\n" +
	"| package | what it is | imports of ours | imports of others |\n|---|---|---|---|\n"

// write writes a module of the given files, by name, and returns its root.
func write(t *testing.T, rows string, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	all := map[string]string{"go.mod": "module example.com/m\n\ngo 1.25\n", house.Document: table + rows + "\n## Next\n\n| not | a | row | at all |\n|---|---|---|---|\n| `x` | x | x | x |\n"}
	for name, text := range files {
		all[name] = text
	}
	for name, text := range all {
		full := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(full), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func read(t *testing.T, rows string, files map[string]string) *house.House {
	t.Helper()
	h, err := house.Read(write(t, rows, files))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// TestCheck shows each difference between packages and table.
func TestCheck(t *testing.T) {
	h := read(t, "| `a`, `gone` | two | `b`, `c` | `example.org/used`, `example.org/unused` |\n| `b` | one | none | none |\n", map[string]string{
		"a/a.go":                 "package a\nimport (\n\t_ \"example.com/m/b\"\n\t_ \"example.org/used\"\n\t_ \"net/http\"\n)\n",
		"a/a_test.go":            "package a\nimport _ \"example.org/unused\"\n",
		"b/b.go":                 "package b\nimport _ \"example.com/m/c\"\n",
		"c/c.go":                 "package c\n",
		"c/testdata/no/no.go":    "package no\nimport _ \"example.org/unused\"\n",
		"c/other/go.mod":         "module example.com/other\n",
		"c/other/no.go":          "package no\n",
		".hidden/no.go":          "package no\n",
		"node_modules/no/no.go":  "package no\n",
		"docs/without/readme.md": "no Go\n",
	})
	got := h.Check()
	slices.Sort(got)
	want := []string{
		"b/b.go imports example.com/m/c, which its row in the import table of docs/design.md (line 11) does not allow",
		"c has no row in the import table of docs/design.md",
		"docs/design.md:10: a, gone imports no example.com/m/c: take it out of the row",
		"docs/design.md:10: a, gone imports no example.org/unused: take it out of the row",
		"docs/design.md:10: there is no package gone",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestTableForm refuses tables that a test would read otherwise than a person.
func TestTableForm(t *testing.T) {
	for row, want := range map[string]string{
		"| `a` | the package | everything but `b` | none |\n":         "cannot read the cell",
		"| `a` | the package | kong | none |\n":                       "cannot read the cell",
		"| `a` | the package |  | none |\n":                           "cannot read the cell",
		"| `a` | a | b | none | none |\n":                             "cells",
		"| `a` | a | none | none |\n| `b`, `a` | b | none | none |\n": "docs/design.md:11: a has a row already, in line 10",
		"| `a`, `a` | a | none | none |\n":                            "docs/design.md:10: a is twice in this row",
		"":                                                            "has no import table",
	} {
		_, err := house.Read(write(t, row, nil))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want an error with %q", row, err, want)
		}
	}
}

// TestLayers shows that a package stands above everything that it imports.
func TestLayers(t *testing.T) {
	h := read(t, "| `a` | a | everything | none |\n", map[string]string{
		"a/a.go": "package a\nimport (\n\t_ \"example.com/m/b\"\n\t_ \"example.com/m/c\"\n)\n",
		"b/b.go": "package b\nimport _ \"example.com/m/c\"\n",
		"c/c.go": "package c\n",
		"d/d.go": "package d\n",
	})
	var text, dot strings.Builder
	h.WriteLayers(&text)
	h.WriteDot(&dot)
	lines := strings.Split(text.String(), "\n")
	for i := range lines {
		lines[i] = strings.Join(strings.Fields(lines[i]), " ")
	}
	if got, want := strings.Join(lines, "\n"), "layer 2\na b c\nlayer 1\nb c\nlayer 0\nc\nd\n4 packages, 3 imports, longest path 2\n"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if strings.Contains(dot.String(), `"a" -> "c"`) || !strings.Contains(dot.String(), `"a" -> "b"`) || !strings.Contains(dot.String(), `"b" -> "c"`) {
		t.Errorf("the drawing has other arrows than a → b → c:\n%s", dot.String())
	}
}
