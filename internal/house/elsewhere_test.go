package house_test

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestElsewhere checks the types of everything where stores in files are refused and for processors of
// 32 bits, and on other Unix systems of what asks the system. Nothing is compiled or runs there: to
// compile would find nothing more in our own source, and takes minutes.
func TestElsewhere(t *testing.T) {
	for _, to := range []struct{ system, processor, packages string }{
		{"windows", "amd64", "./..."},
		{"linux", "386", "./..."},
		{"darwin", "arm64", "./storage/file/..."},
		{"freebsd", "amd64", "./storage/file/..."},
	} {
		t.Run(to.system+"/"+to.processor, func(t *testing.T) {
			t.Parallel()
			e := elsewhere{sizes: types.SizesFor("gc", to.processor), files: token.NewFileSet(), checked: map[string]*types.Package{"unsafe": types.Unsafe}}
			listed := e.list(t, to.system, to.processor, to.packages)
			if len(listed) < 100 {
				t.Fatalf("%d packages", len(listed))
			}
			for _, p := range listed {
				if err := e.check(p); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestElsewhereSees finds what only another system would.
func TestElsewhereSees(t *testing.T) {
	for name, text := range map[string]string{
		"an integer of 32 bits":    "package p\nconst big int = 1 << 40\n",
		"a name that is not there": "package p\nimport \"os\"\nfunc f() { os.Nowhere() }\n",
		"in a function":            "package p\nfunc f() { unused := 1 }\n",
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "p.go"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		e := elsewhere{sizes: types.SizesFor("gc", "386"), files: token.NewFileSet(), checked: map[string]*types.Package{"os": types.NewPackage("os", "os")}}
		e.checked["os"].MarkComplete()
		if err := e.check(elsewherePackage{ImportPath: "example.com/p", Dir: dir, GoFiles: []string{"p.go"}, Module: &struct{ Main bool }{true}}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// elsewhere checks packages for one system, each after those that it imports.
type elsewhere struct {
	sizes   types.Sizes
	files   *token.FileSet
	checked map[string]*types.Package
}

// elsewherePackage is a package as the go command lists it.
type elsewherePackage struct {
	ImportPath, Dir string
	GoFiles         []string
	ImportMap       map[string]string
	Module          *struct{ Main bool }
}

// list lists packages of this module, and all that they import before them.
func (e *elsewhere) list(t *testing.T, system, processor, packages string) (found []elsewherePackage) {
	t.Helper()
	command := exec.Command("go", "list", "-deps", "-json=ImportPath,Dir,GoFiles,ImportMap,Module", packages)
	command.Dir, command.Stderr = "../..", os.Stderr
	command.Env = append(os.Environ(), "GOOS="+system, "GOARCH="+processor, "CGO_ENABLED=0")
	out, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p elsewherePackage
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return found
		} else if err != nil {
			t.Fatal(err)
		}
		if p.ImportPath != "unsafe" {
			found = append(found, p)
		}
	}
}

// check checks one package: what its functions do only if it is of this module.
func (e *elsewhere) check(p elsewherePackage) error {
	var files []*ast.File
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(e.files, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	config := types.Config{Importer: imports{e.checked, p.ImportMap}, Sizes: e.sizes, IgnoreFuncBodies: p.Module == nil || !p.Module.Main}
	checked, err := config.Check(p.ImportPath, e.files, files, nil)
	e.checked[p.ImportPath] = checked
	return err
}

// imports are packages that are checked, and under which name the standard library imports some.
type imports struct {
	checked map[string]*types.Package
	named   map[string]string
}

// Import implements [types.Importer].
func (i imports) Import(path string) (*types.Package, error) {
	if name, ok := i.named[path]; ok {
		path = name
	}
	if p := i.checked[path]; p != nil {
		return p, nil
	}
	return nil, errors.New("no package " + path)
}
