package strictjson

import (
	"encoding"
	"encoding/json"
	"reflect"
	"strings"
	"sync"
	"unicode"
)

// shape describes the members or elements that a JSON value has according to a Go type. The
// zero shape allows any member names and values.
type shape struct {
	fields  map[string]reflect.Type // of a struct, by exact member name
	element reflect.Type            // of a map, slice or array
}

// member returns the type of a member, nil if it is not known, and whether the name is allowed
// to match.
func (s shape) member(name []byte) (t reflect.Type, known bool) {
	if s.fields == nil {
		return s.element, true
	}
	t, known = s.fields[string(name)]
	return t, known
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

func knownFields(t reflect.Type) map[string]reflect.Type {
	if known, ok := fieldCache.Load(t); ok {
		return known.(map[string]reflect.Type)
	}
	known, _ := fieldCache.LoadOrStore(t, fieldsOf(t))
	return known.(map[string]reflect.Type)
}

// field is a candidate for a member name.
type field struct {
	t      reflect.Type
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

// fieldsOf returns the fields of a struct by the member names that encoding/json uses. It
// follows the same rules for embedded structs: of several fields with one name it takes the
// shallowest, then the one whose name comes from a tag, and none if that leaves several.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	decided := map[string]field{}
	visited := map[reflect.Type]bool{}
	for level := map[reflect.Type]int{t: 1}; len(level) > 0; {
		deeper := map[reflect.Type]int{}
		names := map[string]field{}
		for t, count := range level {
			if !visited[t] {
				visited[t] = true
				collect(t, count, names, deeper)
			}
		}
		for name, f := range names {
			if _, taken := decided[name]; !taken {
				decided[name] = f
			}
		}
		level = deeper
	}
	known := make(map[string]reflect.Type, len(decided))
	for name, f := range decided {
		if f.count == 1 {
			known[name] = f.t
		}
	}
	return known
}

// collect adds the fields of a struct, which is embedded count times, to names, and the structs
// that it embeds to deeper.
func collect(t reflect.Type, count int, names map[string]field, deeper map[reflect.Type]int) {
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
		if name == "" && f.Anonymous && inner.Kind() == reflect.Struct {
			deeper[inner] += count
			continue
		}
		found := field{t: f.Type, tagged: name != "", count: count}
		if name == "" {
			name = f.Name
		}
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
