package house

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// File is a Go file.
type File struct {
	// Name is its path from the root of the module, with slashes.
	Name string
	// Package is the name in its package clause.
	Package string
	// Test says that the name ends with _test.go.
	Test bool
	// Lines counts all lines.
	Lines int
	// Imports are the paths as written, of the standard library too.
	Imports []string
	// Functions are the functions and methods it declares.
	Functions []Function
	// Exported counts the exported names it declares at the top level, methods of exported
	// types included. Documented counts those of them with a comment.
	Exported, Documented int
}

// Function is a declared function or method.
type Function struct {
	// Name is "Function" or "Type.Method".
	Name string
	// Line is where it begins, Lines how many it takes, without its comment.
	Line, Lines int
	// Complexity is its cyclomatic complexity, as [Complexity] counts it.
	Complexity int
}

func readFile(root, name string) (File, error) {
	full := filepath.Join(root, filepath.FromSlash(name))
	text, err := os.ReadFile(full)
	if err != nil {
		return File{}, err
	}
	positions := token.NewFileSet()
	parsed, err := parser.ParseFile(positions, full, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return File{}, err
	}
	f := File{Name: name, Package: parsed.Name.Name, Test: strings.HasSuffix(name, "_test.go"), Lines: bytes.Count(text, []byte("\n"))}
	for _, spec := range parsed.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return File{}, err
		}
		f.Imports = append(f.Imports, imported)
	}
	for _, declaration := range parsed.Decls {
		switch d := declaration.(type) {
		case *ast.FuncDecl:
			begin, end := positions.Position(d.Pos()).Line, positions.Position(d.End()).Line
			f.Functions = append(f.Functions, Function{Name: functionName(d), Line: begin, Lines: end - begin + 1, Complexity: Complexity(d)})
			f.count(exported(d), d.Doc)
		case *ast.GenDecl:
			f.group(d)
		}
	}
	return f, nil
}

// Complexity returns the cyclomatic complexity of a function: one, and one more for each if,
// loop, case that is no default, && and ||, those of function literals within included.
func Complexity(function *ast.FuncDecl) int {
	complexity := 1
	ast.Inspect(function, func(node ast.Node) bool {
		if branches(node) {
			complexity++
		}
		return true
	})
	return complexity
}

func branches(node ast.Node) bool {
	switch n := node.(type) {
	case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt:
		return true
	case *ast.CaseClause:
		return n.List != nil
	case *ast.CommClause:
		return n.Comm != nil
	case *ast.BinaryExpr:
		return n.Op == token.LAND || n.Op == token.LOR
	}
	return false
}

// group counts the names of a declaration of types, variables or constants. A comment on the
// group is good for all names of it.
func (f *File) group(d *ast.GenDecl) {
	for _, spec := range d.Specs {
		switch s := spec.(type) {
		case *ast.TypeSpec:
			f.count(s.Name.IsExported(), d.Doc, s.Doc, s.Comment)
		case *ast.ValueSpec:
			for _, name := range s.Names {
				f.count(name.IsExported(), d.Doc, s.Doc, s.Comment)
			}
		}
	}
}

func (f *File) count(exported bool, comments ...*ast.CommentGroup) {
	if !exported {
		return
	}
	f.Exported++
	for _, c := range comments {
		if c != nil {
			f.Documented++
			return
		}
	}
}

func exported(d *ast.FuncDecl) bool {
	return d.Name.IsExported() && (d.Recv == nil || ast.IsExported(receiver(d.Recv.List[0].Type)))
}

func functionName(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return d.Name.Name
	}
	return receiver(d.Recv.List[0].Type) + "." + d.Name.Name
}

// receiver returns the name of a receiver's type.
func receiver(expression ast.Expr) string {
	switch e := expression.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return "?"
}
