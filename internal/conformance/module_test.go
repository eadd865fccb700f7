package conformance

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
)

// module is what the source of this module declares.
type module struct {
	symbols map[string]bool // directory.Name, directory.Type.Method, directory.Type.Field
	tests   map[string]bool // directory/TestName, and directory/testName in a suite
	files   []string        // in testdata folders
	texts   []string        // .go, .md and .txtar
}

// readModule reads every Go file of the module, whatever its build constraints, and lists the
// other files that the tests need.
func readModule(t *testing.T) module {
	t.Helper()
	m := module{symbols: map[string]bool{}, tests: map[string]bool{}}
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case !entry.IsDir():
			return m.add(name)
		case name != "." && strings.HasPrefix(entry.Name(), "."), entry.Name() == "node_modules":
			return fs.SkipDir
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func (m *module) add(name string) error {
	if slices.Contains([]string{".go", ".md", ".txtar"}, path.Ext(name)) {
		m.texts = append(m.texts, name)
	}
	switch {
	case strings.Contains(name, "testdata/"):
		m.files = append(m.files, name)
	case strings.HasSuffix(name, ".go"):
		return m.read(name)
	}
	return nil
}

func (m module) read(name string) error {
	file, err := parser.ParseFile(token.NewFileSet(), path.Join(root, name), nil, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	directory := path.Dir(name)
	for _, declaration := range file.Decls {
		switch d := declaration.(type) {
		case *ast.FuncDecl:
			m.function(directory, strings.HasSuffix(name, "_test.go"), d)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				m.spec(directory, spec)
			}
		}
	}
	return nil
}

func (m module) function(directory string, test bool, f *ast.FuncDecl) {
	name := f.Name.Name
	switch {
	case f.Recv != nil:
		m.symbols[directory+"."+receiver(f.Recv.List[0].Type)+"."+name] = true
	case test && hasPrefix(name, "Test", "Fuzz", "Example"), suite(f) && hasPrefix(name, "test", "race"):
		m.tests[directory+"/"+name] = true
	default:
		m.symbols[directory+"."+name] = true
	}
}

func hasPrefix(s string, prefixes ...string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(s, prefix) })
}

// suite reports whether a function tests with the *testing.T of its caller.
func suite(f *ast.FuncDecl) bool {
	if len(f.Type.Params.List) == 0 {
		return false
	}
	pointer, ok := f.Type.Params.List[0].Type.(*ast.StarExpr)
	if !ok {
		return false
	}
	selector, ok := pointer.X.(*ast.SelectorExpr)
	return ok && selector.Sel.Name == "T"
}

func (m module) spec(directory string, spec ast.Spec) {
	switch s := spec.(type) {
	case *ast.ValueSpec:
		for _, name := range s.Names {
			m.symbols[directory+"."+name.Name] = true
		}
	case *ast.TypeSpec:
		m.symbols[directory+"."+s.Name.Name] = true
		if structure, ok := s.Type.(*ast.StructType); ok {
			for _, field := range structure.Fields.List {
				for _, name := range field.Names {
					m.symbols[directory+"."+s.Name.Name+"."+name.Name] = true
				}
			}
		}
	}
}

// receiver returns the name of a receiver's type.
func receiver(expression ast.Expr) string {
	switch e := expression.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return "?"
}

// transcript reports whether a name is a flow or script: a .txtar file in a testdata folder.
func (m module) transcript(name string) bool {
	return strings.HasSuffix(name, ".txtar") && slices.Contains(m.files, name)
}

// flowFolders returns the folders that hold flows.
func (m module) flowFolders() []string {
	var folders []string
	for _, name := range m.files {
		if folder := path.Dir(name); path.Base(path.Dir(folder)) == "flows" && !slices.Contains(folders, folder) {
			folders = append(folders, folder)
		}
	}
	return folders
}
