// Package house reads the source of this module: its packages, what they import, how large
// their files and functions are. It reads the import table in docs/design.md as well, and
// compares the two. It runs no command, so that the test cache knows what its callers read.
package house

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// House is the source of a module and the import table of its packages.
type House struct {
	// Module is the module path.
	Module string
	// Packages are sorted by path.
	Packages []*Package
	// Rows are those of the import table.
	Rows []Row
}

// Package is the Go code in one folder, whatever its build constraints.
type Package struct {
	// Path is the folder, from the root of the module, with slashes.
	Path string
	// Name is the name in the package clause of the files that are no tests.
	Name string
	// Files are sorted by name.
	Files []File
}

// Here returns the root of the module that the working directory belongs to, and the path of
// the working directory from there.
func Here() (root, dir string, err error) {
	at, err := filepath.Abs(".")
	if err != nil {
		return "", "", err
	}
	for root := at; ; root = filepath.Dir(root) {
		switch _, err := os.Stat(filepath.Join(root, "go.mod")); {
		case err == nil:
			dir, err := filepath.Rel(root, at)
			return root, filepath.ToSlash(dir), err
		case !errors.Is(err, fs.ErrNotExist) || root == filepath.Dir(root):
			return "", "", err
		}
	}
}

// Read reads the module in the folder root with its import table.
func Read(root string) (*House, error) {
	h, err := open(root)
	if err != nil {
		return nil, err
	}
	err = fs.WalkDir(os.DirFS(root), ".", func(dir string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil || !entry.IsDir():
			return err
		case dir != "." && apart(root, dir):
			return fs.SkipDir
		}
		return h.add(root, dir)
	})
	return h, err
}

// ReadPackage reads one package of the module in the folder root, by its path there, with the
// import table.
func ReadPackage(root, dir string) (*House, error) {
	h, err := open(root)
	if err != nil {
		return nil, err
	}
	return h, h.add(root, dir)
}

// open reads everything but the packages.
func open(root string) (*House, error) {
	text, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return nil, err
	}
	first, _, _ := strings.Cut(string(text), "\n")
	module, ok := strings.CutPrefix(first, "module ")
	if !ok {
		return nil, fmt.Errorf("house: %s/go.mod does not begin with the module path", root)
	}
	text, err = os.ReadFile(filepath.Join(root, filepath.FromSlash(Document)))
	if err != nil {
		return nil, err
	}
	rows, err := parseTable(string(text))
	return &House{Module: strings.TrimSpace(module), Rows: rows}, err
}

// apart reports whether the go command leaves a folder out of "./...".
func apart(root, dir string) bool {
	name := path.Base(dir)
	if strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || name == "testdata" || name == "node_modules" {
		return true
	}
	_, err := os.Stat(filepath.Join(root, dir, "go.mod"))
	return err == nil
}

// add reads the Go files of a folder, if it has some.
func (h *House) add(root, dir string) error {
	entries, err := os.ReadDir(filepath.Join(root, dir))
	if err != nil {
		return err
	}
	p := &Package{Path: dir}
	for _, entry := range entries {
		if path.Ext(entry.Name()) != ".go" {
			continue
		}
		f, err := readFile(root, path.Join(dir, entry.Name()))
		if err != nil {
			return err
		}
		if !f.Test {
			p.Name = f.Package
		}
		p.Files = append(p.Files, f)
	}
	if len(p.Files) > 0 {
		h.Packages = append(h.Packages, p)
	}
	return nil
}

// Package returns the package in a folder, nil if there is none.
func (h *House) Package(dir string) *Package {
	i := slices.IndexFunc(h.Packages, func(p *Package) bool { return p.Path == dir })
	if i < 0 {
		return nil
	}
	return h.Packages[i]
}

// Imports returns the paths that the package imports, besides the standard library, sorted. Test
// files do not count.
func (p *Package) Imports() (paths []string) {
	for _, f := range p.Files {
		if !f.Test {
			paths = append(paths, f.Imports...)
		}
	}
	slices.Sort(paths)
	return slices.DeleteFunc(slices.Compact(paths), standard)
}

// ours returns which of the module's own packages the package imports, as paths from the root.
func (h *House) ours(p *Package) (dirs []string) {
	for _, imported := range p.Imports() {
		if dir, ok := strings.CutPrefix(imported, h.Module+"/"); ok {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// Product returns the packages that the commands in cmd are made of, by path: all others are
// there for tests, examples and measuring.
func (h *House) Product() map[string]bool {
	product := map[string]bool{}
	for _, p := range h.Packages {
		if strings.HasPrefix(p.Path, "cmd/") && p.Name == "main" {
			h.collect(p, product)
		}
	}
	return product
}

func (h *House) collect(p *Package, into map[string]bool) {
	if p == nil || into[p.Path] {
		return
	}
	into[p.Path] = true
	for _, dir := range h.ours(p) {
		h.collect(h.Package(dir), into)
	}
}

// standard reports a path of the standard library: its first part has no dot.
func standard(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return !strings.Contains(first, ".")
}
