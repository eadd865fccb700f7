package publicapi

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

const (
	module = "gatehouse.example"
	root   = "../.."
)

// listed is a package as the go command lists it.
type listed struct {
	ImportPath, Name, Dir, Export      string
	GoFiles, TestGoFiles, XTestGoFiles []string
}

// loaded is a public package.
type loaded struct {
	path         string
	types        *types.Package
	files, tests []*ast.File
}

// public returns the packages of this module that others can import.
func public(t *testing.T) []loaded {
	t.Helper()
	found, err := load()
	if err != nil {
		t.Fatal(err)
	}
	return found
}

var load = sync.OnceValues(func() (found []loaded, err error) {
	packages, err := list()
	if err != nil {
		return nil, err
	}
	s := &source{packages: packages, files: token.NewFileSet(), checked: map[string]*types.Package{}, parsed: map[string][]*ast.File{}}
	s.others = importer.ForCompiler(s.files, "gc", s.export)
	for _, path := range slices.Sorted(maps.Keys(packages)) {
		p := packages[path]
		if !within(module, path) || internal(path) || p.Name == "main" {
			continue
		}
		l := loaded{path: path}
		if l.types, err = s.Import(path); err != nil {
			return nil, err
		}
		l.files = s.parsed[path]
		if l.tests, err = s.parse(p.Dir, append(p.TestGoFiles, p.XTestGoFiles...)); err != nil {
			return nil, err
		}
		found = append(found, l)
	}
	return found, nil
})

// list runs the go command to list the packages of this module and all that they import.
func list() (map[string]*listed, error) {
	command := exec.Command("go", "list", "-deps", "-export", "-json=ImportPath,Name,Dir,Export,GoFiles,TestGoFiles,XTestGoFiles", "./...")
	command.Dir, command.Stderr = root, os.Stderr
	out, err := command.Output()
	if err != nil {
		return nil, err
	}
	packages := map[string]*listed{}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		p := &listed{}
		switch err := d.Decode(p); {
		case errors.Is(err, io.EOF):
			return packages, nil
		case err != nil:
			return nil, err
		}
		packages[p.ImportPath] = p
	}
}

// source reads the packages of this module from source, so that the test cache depends on their
// files, and all others from export data.
type source struct {
	packages map[string]*listed
	files    *token.FileSet
	others   types.Importer
	checked  map[string]*types.Package
	parsed   map[string][]*ast.File
}

// Import implements [types.Importer].
func (s *source) Import(path string) (*types.Package, error) {
	p := s.packages[path]
	if !within(module, path) || p == nil {
		return s.others.Import(path)
	}
	if s.checked[path] == nil {
		files, err := s.parse(p.Dir, p.GoFiles)
		if err != nil {
			return nil, err
		}
		s.parsed[path] = files
		config := types.Config{Importer: s, IgnoreFuncBodies: true}
		if s.checked[path], err = config.Check(path, s.files, files, nil); err != nil {
			return nil, err
		}
	}
	return s.checked[path], nil
}

func (s *source) parse(dir string, names []string) (files []*ast.File, err error) {
	for _, name := range names {
		f, err := parser.ParseFile(s.files, filepath.Join(dir, name), nil, parser.SkipObjectResolution|parser.ParseComments)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}

func (s *source) export(path string) (io.ReadCloser, error) {
	p := s.packages[path]
	if p == nil || p.Export == "" {
		return nil, errors.New("publicapi: nothing is compiled of " + path)
	}
	return os.Open(p.Export)
}

// written are packages that a test has added, by path.
type written map[string]*types.Package

// Import implements [types.Importer].
func (w written) Import(path string) (*types.Package, error) { return w[path], nil }

// add adds a package, which may import the packages that were added before.
func (w written) add(t *testing.T, path, text string) {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	config := types.Config{Importer: w}
	if w[path], err = config.Check(path, files, []*ast.File{file}, nil); err != nil {
		t.Fatal(err)
	}
}
