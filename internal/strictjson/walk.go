package strictjson

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
)

// walker walks through a document together with the Go type that it will be decoded into. The type
// is nil where any member name is allowed.
type walker struct {
	data     []byte
	pos      int
	maxDepth int
	path     []step
	names    [][]byte // of all open objects, innermost last
	filling  *filling // is given the members of the outermost object, in place of exact; may be nil
	// exact is data with the names that must not match overwritten; nil if there are none.
	exact []byte
	// target is the offset of a byte; found is the path of the innermost value with it.
	target int
	found  string
}

// step is one member name or, when name is nil, one array index.
type step struct {
	name  []byte
	index int
}

// document walks through the only value of the data.
func (w *walker) document(t reflect.Type) error {
	w.space()
	if w.filling != nil && w.peek() != '{' {
		w.filling.misfits = true
	}
	if err := w.value(t); err != nil {
		return err
	}
	if w.space(); w.pos < len(w.data) {
		return errSyntax
	}
	return nil
}

func (w *walker) value(t reflect.Type) error {
	w.space()
	begin := w.pos
	err := w.inside(t)
	if err == nil && w.found == "" && begin <= w.target && w.target < w.pos {
		w.found = pathString(w.path)
	}
	return err
}

func (w *walker) inside(t reflect.Type) error {
	switch w.peek() {
	case '{':
		return w.object(t)
	case '[':
		return w.array(t)
	case '"':
		_, _, err := w.text()
		return err
	}
	if !w.scalar() {
		return errSyntax
	}
	return nil
}

func (w *walker) object(t reflect.Type) error {
	shape := shapeOf(t)
	first := len(w.names)
	var seen map[string]bool
	more, err := w.enter('}')
	for more && err == nil {
		if seen, err = w.member(shape, first, seen); err == nil {
			more, err = w.next('}')
		}
	}
	w.names = w.names[:first]
	return err
}

// manyNames is the number of names from which those of an object go into a map: comparing all
// pairs could take much time for a small document.
const manyNames = 16

// member reads a name and its value. It compares the name with the earlier names of the same
// object, which start at first or are in seen.
func (w *walker) member(shape shape, first int, seen map[string]bool) (map[string]bool, error) {
	w.space()
	begin := w.pos + 1
	name, escaped, err := w.text()
	if err != nil {
		return nil, err
	}
	end := w.pos - 1
	if escaped {
		name = unquote(w.data[begin-1 : end+1])
	}
	w.path = append(w.path, step{name: name})
	if bytes.IndexByte(name, 0) >= 0 {
		return nil, w.fail(ErrText, "NUL in a member name")
	}
	if seen, err = w.checkDuplicate(name, first, seen); err != nil {
		return nil, err
	}
	inner, known := shape.member(name)
	if w.space(); !w.take(':') {
		return nil, errSyntax
	}
	w.space()
	value := w.pos
	if err := w.value(inner.t); err != nil {
		return nil, err
	}
	switch {
	case known && w.filling != nil && len(w.path) == 1:
		w.filling.set(inner, w.data[value:w.pos])
	case !known && w.filling == nil:
		w.overwrite(begin, end)
	}
	w.path = w.path[:len(w.path)-1]
	return seen, nil
}

func (w *walker) checkDuplicate(name []byte, first int, seen map[string]bool) (map[string]bool, error) {
	if len(w.names)-first == manyNames {
		seen = make(map[string]bool, 4*manyNames)
		for _, earlier := range w.names[first:] {
			seen[string(earlier)] = true
		}
	}
	duplicate := seen[string(name)]
	if seen == nil {
		for _, earlier := range w.names[first:] {
			duplicate = duplicate || bytes.Equal(earlier, name)
		}
	} else {
		seen[string(name)] = true
	}
	if duplicate {
		return nil, w.fail(ErrDuplicate, "")
	}
	w.names = append(w.names, name)
	return seen, nil
}

// overwrite fills a member name with commas. No field can have such a name, because a
// comma ends the name in a struct tag, so encoding/json skips the member.
func (w *walker) overwrite(begin, end int) {
	if w.exact == nil {
		w.exact = bytes.Clone(w.data)
	}
	for i := begin; i < end; i++ {
		w.exact[i] = ','
	}
}

func (w *walker) array(t reflect.Type) error {
	shape := shapeOf(t)
	more, err := w.enter(']')
	for index := 0; more && err == nil; index++ {
		w.path = append(w.path, step{index: index})
		if err = w.value(shape.element); err != nil {
			return err
		}
		w.path = w.path[:len(w.path)-1]
		more, err = w.next(']')
	}
	return err
}

func unquote(quoted []byte) []byte {
	var s string
	if json.Unmarshal(quoted, &s) != nil {
		return nil
	}
	return []byte(s)
}

func (w *walker) fail(kind error, reason string) error {
	return &Error{Path: pathString(w.path), Reason: reason, Err: kind}
}

// pathAt returns the path of the innermost value with the byte at offset, in a document that was
// checked before.
func pathAt(data []byte, offset int) string {
	w := walker{data: data, maxDepth: len(data), target: offset}
	if w.value(nil) != nil {
		return ""
	}
	return w.found
}

// maxNameInPath bounds the bytes of an untrusted member name in an error.
const maxNameInPath = 64

func pathString(path []step) string {
	var b strings.Builder
	for _, s := range path {
		if s.name == nil {
			b.WriteString("[" + strconv.Itoa(s.index) + "]")
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(nameString(s.name))
	}
	return b.String()
}

func nameString(name []byte) string {
	if len(name) > 0 && len(name) <= maxNameInPath && !bytes.ContainsFunc(name, notPlain) {
		return string(name)
	}
	return strconv.QuoteToASCII(string(name[:min(len(name), maxNameInPath)]))
}

func notPlain(c rune) bool {
	return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("_-#:/$@", c)
}
