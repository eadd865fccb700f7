package strictjson

import (
	"cmp"
	"encoding"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"sync"
	"unicode"
)

// shape describes the members or elements that a JSON value has according to a Go type. The
// zero shape allows any member names and values.
type shape struct {
	fields  *fields      // of a struct
	element reflect.Type // of a map, slice or array
}

// fields are those of a struct that a document can fill.
type fields struct {
	byName   map[string]member // by exact member name
	fillable bool              // each of them can be filled without encoding/json
}

// member is a field of a struct, or the elements of another value, with the type that they have.
type member struct {
	t     reflect.Type
	index []int // of the field
	way   way
}

// member returns a member, zero if it is not known, and whether the name is allowed to match.
func (s shape) member(name []byte) (m member, known bool) {
	if s.fields == nil {
		return member{t: s.element}, true
	}
	m, known = s.fields.byName[string(name)]
	return m, known
}

// maxIndirections bounds the pointers that are followed, because a type may be a pointer to
// itself.
const maxIndirections = 8

func shapeOf(t reflect.Type) shape {
	for range maxIndirections {
		if t == nil || decodesItself(t) {
			return shape{}
		}
		switch t.Kind() {
		case reflect.Pointer:
			t = t.Elem()
		case reflect.Struct:
			return shape{fields: knownFields(t)}
		case reflect.Map, reflect.Slice, reflect.Array:
			return shape{element: t.Elem()}
		default:
			return shape{}
		}
	}
	return shape{}
}

func decodesItself(t reflect.Type) bool {
	if t.Kind() != reflect.Pointer {
		t = reflect.PointerTo(t)
	}
	return t.Implements(reflect.TypeFor[json.Unmarshaler]()) || t.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// fieldCache holds the results of fieldsOf by type. They depend on the types of the program
// only, and a document may have thousands of small objects of one type.
var fieldCache sync.Map

func knownFields(t reflect.Type) *fields {
	if known, ok := fieldCache.Load(t); ok {
		return known.(*fields)
	}
	known, _ := fieldCache.LoadOrStore(t, fieldsOf(t))
	return known.(*fields)
}

// field is a candidate for a member name.
type field struct {
	member
	tagged bool
	count  int // number of equivalent candidates
}

// better returns the field that takes precedence among two of one depth: one with a name from a
// tag.
func (f field) better(other field) field {
	switch {
	case f.count == 0 || (other.tagged && !f.tagged):
		return other
	case f.tagged == other.tagged:
		f.count += other.count
	}
	return f
}

// embedded is a struct in another one: the index of its field, whether there is a pointer on the way,
// and how often it is embedded.
type embedded struct {
	index   []int
	pointer bool
	count   int
}

// wayOf returns how a field at a place is filled.
func (at embedded) wayOf(f reflect.StructField) way {
	if _, options, _ := strings.Cut(f.Tag.Get("json"), ","); at.pointer || strings.Contains(options, "string") {
		return wayNone
	}
	return wayOf(f.Type)
}

// fieldsOf returns the fields of a struct by the member names that encoding/json uses. It
// follows the same rules for embedded structs: of several fields with one name it takes the
// shallowest, then the one whose name comes from a tag, and none if that leaves several.
func fieldsOf(t reflect.Type) *fields {
	decided := map[string]field{}
	visited := map[reflect.Type]bool{}
	for level := map[reflect.Type]embedded{t: {count: 1}}; len(level) > 0; {
		deeper := map[reflect.Type]embedded{}
		names := map[string]field{}
		for t, at := range level {
			if !visited[t] {
				visited[t] = true
				collect(t, at, names, deeper)
			}
		}
		for name, f := range names {
			if _, taken := decided[name]; !taken {
				decided[name] = f
			}
		}
		level = deeper
	}
	known := &fields{byName: make(map[string]member, len(decided)), fillable: true}
	for name, f := range decided {
		if f.count == 1 {
			known.byName[name] = f.member
			known.fillable = known.fillable && f.way != wayNone
		}
	}
	return known
}

// collect adds the fields of a struct at a place to names, and the structs that it embeds to deeper.
func collect(t reflect.Type, at embedded, names map[string]field, deeper map[reflect.Type]embedded) {
	for i := range t.NumField() {
		f := t.Field(i)
		inner := f.Type
		if inner.Name() == "" && inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		tag := f.Tag.Get("json")
		if tag == "-" || (!f.IsExported() && (!f.Anonymous || inner.Kind() != reflect.Struct)) {
			continue
		}
		name := tagName(tag)
		index := append(slices.Clone(at.index), i)
		if name == "" && f.Anonymous && inner.Kind() == reflect.Struct {
			deeper[inner] = embedded{index, at.pointer || f.Type != inner, deeper[inner].count + at.count}
			continue
		}
		found := field{member: member{f.Type, index, at.wayOf(f)}, tagged: name != "", count: at.count}
		name = cmp.Or(name, f.Name)
		names[name] = names[name].better(found)
	}
}

// tagName returns the name in a struct tag, or "" if encoding/json would not use it.
func tagName(tag string) string {
	name, _, _ := strings.Cut(tag, ",")
	if strings.ContainsFunc(name, func(c rune) bool {
		return !strings.ContainsRune("!#$%&()*+-./:;<=>?@[]^_{|}~ ", c) && !unicode.IsLetter(c) && !unicode.IsDigit(c)
	}) {
		return ""
	}
	return name
}

// interfaceCache holds the results of hasInterface by type.
var interfaceCache sync.Map

// hasInterface reports whether a value of a type may have an interface in it, into which numbers are
// decoded as [json.Number].
func hasInterface(t reflect.Type) bool {
	if has, ok := interfaceCache.Load(t); ok {
		return has.(bool)
	}
	has := reachesInterface(t, map[reflect.Type]bool{})
	interfaceCache.Store(t, has)
	return has
}

func reachesInterface(t reflect.Type, seen map[reflect.Type]bool) bool {
	if t == nil || seen[t] {
		return t == nil
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Interface:
		return true
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return reachesInterface(t.Elem(), seen)
	case reflect.Struct:
		for i := range t.NumField() {
			if reachesInterface(t.Field(i).Type, seen) {
				return true
			}
		}
	}
	return false
}
