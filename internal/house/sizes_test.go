package house_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"gatehouse.example/internal/house"
)

// branching has the complexity 13: 1, if, &&, ||, for, range, two cases, a case of a select, an
// if with three || in a literal. The defaults do not count.
const branching = `package main
func main() {
	if a && b || c {
	}
	for {
		for range d {
		}
	}
	switch {
	case a:
	case b, c:
	default:
	}
	select {
	case <-d:
	default:
	}
	func() {
		if a || b || c || d {
		}
	}()
}
type Type[T any] struct{}
func (t *Type[T]) Method() {
}
`

// TestAbove shows what is counted, and for what code.
func TestAbove(t *testing.T) {
	lines := func(n int) string { return strings.Repeat("\n", n) }
	h := read(t, "| `a` | a | everything | none |\n", map[string]string{
		"cmd/m/main.go":        strings.Replace(branching, "if a && b || c {", "if a && b {", 1),
		"cmd/n/main.go":        strings.Replace(branching, "package main", "package main\nimport _ \"example.com/m/used\"", 1),
		"cmd/n/main_test.go":   branching,
		"tool/main.go":         branching,
		"used/used.go":         "package used\n" + lines(299),
		"used/long.go":         "package used\n" + lines(300),
		"used/used_test.go":    "package used\n" + lines(449),
		"used/long_test.go":    "package used\n" + lines(450),
		"usedtest/usedtest.go": "package usedtest\n" + lines(449),
	})
	var got []string
	for _, e := range h.Above() {
		got = append(got, e.Place+" "+e.What)
	}
	want := []string{
		"cmd/n/main.go:3 main has the complexity 13, at most 12",
		"used/long.go:1 301 lines, at most 300",
		"used/long_test.go:1 451 lines, at most 450",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestFigures shows the numbers of a small module.
func TestFigures(t *testing.T) {
	h := read(t, "| `a` | a | everything | none |\n", map[string]string{
		"cmd/m/main.go":      branching,
		"cmd/m/doc.go":       "package main\n\n// Known is documented.\nvar Known, unknown int\n\nconst Bare = 1\n\nfunc (hidden) Method() {}\n",
		"cmd/m/main_test.go": "package main\n\nfunc TestMain() {}\n",
	})
	var text strings.Builder
	h.WriteFigures(&text)
	for _, want := range []string{
		"files 2, lines 33, files above their limit (300 product, 450 other) 0", "functions 3, lines of a function: median 2, p90 21, max 21",
		"above 12 1, max 13", "exported names 4, with a comment 1", "cmd                                  33        3   100.0%",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
	text.Reset()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := house.WriteBinary(&text, program); err != nil || !strings.Contains(text.String(), " modules, go1.") {
		t.Errorf("%v, %s", err, text.String())
	}
}
