// Package publicapi checks that other modules can use the public packages of this one. Another
// module cannot name a type of an internal package, so it cannot use a parameter, field or result
// of such a type: [TestClosed] refuses it. The example of a package is the first text that a new
// user reads: [TestExamples] expects one for each.
package publicapi

import (
	"go/ast"
	"go/types"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestClosed walks all exported declarations of all public packages, and everything that can be
// reached from them: fields, methods, parameters, results, aliases, embedded types, constraints.
func TestClosed(t *testing.T) {
	for _, p := range public(t) {
		w := walker{module: module, seen: map[types.Type]bool{}}
		for _, name := range p.types.Scope().Names() {
			if object := p.types.Scope().Lookup(name); object.Exported() {
				w.object(object)
			}
		}
		slices.Sort(w.found)
		for _, found := range slices.Compact(w.found) {
			t.Errorf("%s: %s, which other modules cannot name", p.path, found)
		}
	}
}

// TestWalk shows that each way from an exported declaration to an internal type is found.
func TestWalk(t *testing.T) {
	const source = `package door
import "example.com/m/internal/room"
type (
	inner      struct{ Field room.Type }
	Field      struct{ Deep []map[string]*room.Type; hidden room.Type }
	Embeds     struct{ room.Type }
	Unexported struct{ inner }
	Alias      = room.Type
	Defined    func(room.Type)
	Generic[T interface{ Use(room.Type) }] struct{ of T }
	Interface  interface{ Method() chan room.Type; unexported() room.Type }
	Receiver   struct{}
	Borrowed   struct{ Once *Receiver }
	Closed     struct{ Own *Closed; hidden room.Type }
)
func (*Receiver) Method(...room.Type) {}
func (Closed) unused() room.Type { return room.Type{} }
func Result() (int, *inner) { return 0, nil }
func Argument(Generic2[room.Type]) {}
type Generic2[T any] struct{ Of T }
var Variable = room.Value
func unexported(room.Type) {}
`
	packages := written{}
	packages.add(t, "example.com/m/internal/room", "package room\ntype Type struct{}\nvar Value Type\n")
	packages.add(t, "example.com/m/door", source)
	declared := packages["example.com/m/door"].Scope()
	var open []string
	for _, name := range declared.Names() {
		if object := declared.Lookup(name); object.Exported() {
			w := walker{module: "example.com/m", seen: map[types.Type]bool{}}
			if w.object(object); len(w.found) > 0 {
				open = append(open, name)
			}
		}
	}
	want := []string{"Alias", "Argument", "Borrowed", "Defined", "Embeds", "Field", "Generic", "Interface", "Receiver", "Result", "Unexported", "Variable"}
	if !slices.Equal(open, want) {
		t.Errorf("found %q, want %q", open, want)
	}
}

// TestDocs refuses comments of public packages that link to an internal one.
func TestDocs(t *testing.T) {
	for _, p := range public(t) {
		for _, file := range p.files {
			for _, spec := range file.Imports {
				imported := strings.Trim(spec.Path.Value, `"`)
				if link := docLink(path.Base(imported)); internal(imported) && slices.ContainsFunc(file.Comments, func(c *ast.CommentGroup) bool { return link.MatchString(c.Text()) }) {
					t.Errorf("%s: a comment links to %s, which users of this module cannot read", p.path, imported)
				}
			}
		}
	}
}

// docLink matches a link in a comment to a declaration of a package.
func docLink(name string) *regexp.Regexp { return regexp.MustCompile(`\[\*?` + name + `\.`) }
