package publicapi

import (
	"go/types"
	"slices"
	"strings"
)

// walker follows types from exported declarations to types of internal packages.
type walker struct {
	module string // its path; types of other modules are not checked
	path   []string
	seen   map[types.Type]bool
	found  []string
}

// object follows an exported declaration.
func (w *walker) object(o types.Object) { w.step(o.Name(), o.Type()) }

// step follows a type that is reached under a name.
func (w *walker) step(name string, t types.Type) {
	w.path = append(w.path, name)
	w.visit(t)
	w.path = w.path[:len(w.path)-1]
}

// visit follows the parts of a type, one kind of type after the other.
func (w *walker) visit(t types.Type) {
	switch t := t.(type) {
	case *types.Alias:
		if w.enters(t.Obj(), t.TypeArgs()) {
			w.visit(t.Rhs())
		}
	case *types.Named:
		if w.enters(t.Obj(), t.TypeArgs()) {
			w.named(t.Origin())
		}
	case *types.TypeParam:
		if !w.seen[t] {
			w.seen[t] = true
			w.visit(t.Constraint())
		}
	case *types.Struct:
		w.structure(t)
	case *types.Interface:
		w.contract(t)
	case *types.Signature:
		w.list(t.TypeParams())
		w.visit(t.Params())
		w.visit(t.Results())
	case *types.Tuple:
		for v := range t.Variables() {
			w.visit(v.Type())
		}
	case *types.Union:
		for term := range t.Terms() {
			w.visit(term.Type())
		}
	case *types.Map:
		w.visit(t.Key())
		w.visit(t.Elem())
	case interface{ Elem() types.Type }: // pointers, slices, arrays, channels
		w.visit(t.Elem())
	}
}

// enters reports whether the type behind a name is to be followed, which is so if a public package
// of the module declares it. It records the name of a type of an internal package.
func (w *walker) enters(name *types.TypeName, arguments *types.TypeList) bool {
	for t := range arguments.Types() {
		w.visit(t)
	}
	switch pkg := name.Pkg(); {
	case pkg == nil || !within(w.module, pkg.Path()):
		return false
	case internal(pkg.Path()):
		w.found = append(w.found, strings.Join(w.path, ".")+" names "+strings.TrimPrefix(pkg.Path(), w.module+"/")+"."+name.Name())
		return false
	}
	return true
}

// named follows a declared type once, with its methods.
func (w *walker) named(t *types.Named) {
	if w.seen[t] {
		return
	}
	w.seen[t] = true
	w.list(t.TypeParams())
	w.visit(t.Underlying())
	for m := range t.Methods() {
		if m.Exported() {
			w.object(m)
		}
	}
}

// structure follows the exported fields, and the embedded ones, whose members are promoted.
func (w *walker) structure(t *types.Struct) {
	for f := range t.Fields() {
		if f.Exported() || f.Embedded() {
			w.object(f)
		}
	}
}

func (w *walker) contract(t *types.Interface) {
	for e := range t.EmbeddedTypes() {
		w.visit(e)
	}
	for m := range t.ExplicitMethods() {
		if m.Exported() {
			w.object(m)
		}
	}
}

func (w *walker) list(l *types.TypeParamList) {
	for p := range l.TypeParams() {
		w.visit(p)
	}
}

func within(module, path string) bool {
	return path == module || strings.HasPrefix(path, module+"/")
}

func internal(path string) bool { return slices.Contains(strings.Split(path, "/"), "internal") }
