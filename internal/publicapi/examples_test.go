package publicapi

import (
	"go/ast"
	"slices"
	"strings"
	"testing"
)

// TestExamples expects an example in the tests of each public package.
func TestExamples(t *testing.T) {
	for _, p := range public(t) {
		if !slices.ContainsFunc(p.tests, hasExample) {
			t.Errorf("%s has no example", p.path)
		}
	}
}

func hasExample(file *ast.File) bool {
	return slices.ContainsFunc(file.Decls, func(d ast.Decl) bool {
		f, ok := d.(*ast.FuncDecl)
		return ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Example")
	})
}
