package house

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// testPackages are those of the standard library that only code for tests imports. A package
// that imports them has them in its row.
var testPackages = []string{"testing", "net/http/httptest"}

// Check compares all packages with the import table and returns a sentence for each
// difference: a package without a row, a row without a package, an import that the row does not
// allow, an import in the row that is in no file.
func (h *House) Check() (faults []string) {
	for _, p := range h.Packages {
		faults = append(faults, h.CheckPackage(p)...)
	}
	for _, r := range h.Rows {
		faults = append(faults, h.unused(r)...)
	}
	return faults
}

// unused returns what stands in a row and is not there: packages, and imports. An import is used
// if one of the packages of the row has it.
func (h *House) unused(r Row) (faults []string) {
	var imported []string
	for _, path := range r.Paths {
		p := h.Package(path)
		if p == nil {
			faults = append(faults, fmt.Sprintf("%s:%d: there is no package %s", Document, r.Line, path))
			continue
		}
		for _, f := range p.Files {
			if !f.Test {
				imported = append(imported, f.Imports...)
			}
		}
	}
	for _, pattern := range append(h.full(r.Ours).Paths, r.Others.Paths...) {
		if !slices.ContainsFunc(imported, func(i string) bool { return covers(pattern, i) }) {
			faults = append(faults, fmt.Sprintf("%s:%d: %s imports no %s: take it out of the row", Document, r.Line, strings.Join(r.Paths, ", "), pattern))
		}
	}
	return faults
}

// CheckPackage compares the files of a package that are no tests with its row.
func (h *House) CheckPackage(p *Package) (faults []string) {
	r := h.Row(p.Path)
	if r == nil {
		return []string{fmt.Sprintf("%s has no row in the import table of %s", p.Path, Document)}
	}
	for _, f := range p.Files {
		if !f.Test {
			faults = append(faults, h.checkFile(*r, f, nil)...)
		}
	}
	return faults
}

// CheckTests compares the test files of a package with its row. They may import the package,
// what is below it, and also other paths.
func (h *House) CheckTests(p *Package, also ...string) (faults []string) {
	r := h.Row(p.Path)
	if r == nil {
		return nil // CheckPackage complains
	}
	also = append(also, h.Module+"/"+p.Path+"/...")
	also = append(also, testPackages...)
	for _, f := range p.Files {
		if f.Test {
			faults = append(faults, h.checkFile(*r, f, also)...)
		}
	}
	return faults
}

func (h *House) checkFile(r Row, f File, also []string) (faults []string) {
	name := path.Base(f.Name)
	for _, imported := range f.Imports {
		switch {
		case standard(imported) && !slices.Contains(testPackages, imported):
		case slices.ContainsFunc(also, func(pattern string) bool { return covers(pattern, imported) }):
		case h.full(r.Ours).allow(name, imported) && h.own(imported), r.Others.allow(name, imported) && !h.own(imported):
		default:
			faults = append(faults, fmt.Sprintf("%s imports %s, which its row in the import table of %s (line %d) does not allow", f.Name, imported, Document, r.Line))
		}
	}
	return faults
}

// own reports a path of this module.
func (h *House) own(imported string) bool { return strings.HasPrefix(imported, h.Module+"/") }

// full returns a cell of folders of this module as import paths.
func (h *House) full(i Imports) Imports {
	full := Imports{All: i.All, In: map[string]string{}}
	for _, dir := range i.Paths {
		full.Paths = append(full.Paths, h.Module+"/"+dir)
		full.In[h.Module+"/"+dir] = i.In[dir]
	}
	return full
}
