package strictjson

import (
	"bytes"
	"encoding/json"
	"reflect"
)

// Structs whose members are texts, lists of texts, flags and raw JSON, as most requests are, are
// filled while the document is checked, without encoding/json. What has another type, or a document
// that does not fit, is left to it.

// filling is a struct that is being filled with the members of a document.
type filling struct {
	v       reflect.Value
	misfits bool // a value has another type than its field
}

// fill fills v, if it points to a struct that can be filled, and reports whether it did. The error is
// why data is refused; then v stays as it was.
func fill(data []byte, v any, o Options) (filled bool, err error) {
	p := reflect.ValueOf(v)
	if p.Kind() != reflect.Pointer || p.IsNil() || !fillable(p.Type().Elem()) || !p.Elem().IsZero() {
		return false, nil
	}
	f := filling{v: p.Elem()}
	_, err = check(data, p.Type(), o, &f)
	if err != nil || f.misfits {
		f.v.SetZero()
		return false, err
	}
	return true, nil
}

// fillable reports whether a type is a struct all of whose known fields are of types that are filled.
func fillable(t reflect.Type) bool {
	if t.Kind() != reflect.Struct || decodesItself(t) {
		return false
	}
	return knownFields(t).fillable
}

// way is how a field is filled.
type way int

const (
	wayNone way = iota // encoding/json has to
	wayText
	wayTexts
	wayFlag
	wayRaw
)

func wayOf(t reflect.Type) way {
	switch {
	case t == reflect.TypeFor[json.RawMessage]():
		return wayRaw
	case decodesItself(t):
		return wayNone
	case t.Kind() == reflect.String:
		return wayText
	case t.Kind() == reflect.Bool:
		return wayFlag
	case t == reflect.TypeFor[[]string]():
		return wayTexts
	}
	return wayNone
}

// set sets a field, which is zero, to a value of the document.
func (f *filling) set(m member, value []byte) {
	field := f.v.FieldByIndex(m.index)
	isNull := string(value) == "null" // which leaves a field as it is
	switch {
	case m.way == wayRaw:
		field.SetBytes(bytes.Clone(value))
	case isNull:
	case m.way == wayText && value[0] == '"':
		field.SetString(textOf(value))
	case m.way == wayTexts && value[0] == '[':
		list, ok := textsOf(value)
		*field.Addr().Interface().(*[]string) = list
		f.misfits = f.misfits || !ok
	case m.way == wayFlag && (string(value) == "true" || string(value) == "false"):
		field.SetBool(string(value) == "true")
	default:
		f.misfits = true
	}
}

// textOf returns the text of a string that was checked.
func textOf(quoted []byte) string {
	if bytes.IndexByte(quoted, '\\') >= 0 {
		return string(unquote(quoted))
	}
	return string(quoted[1 : len(quoted)-1])
}

// usualList is how many texts are made room for at first.
const usualList = 4

// textsOf returns the texts of an array that was checked; null stands for an empty one. It returns
// false if there is something else in it.
func textsOf(array []byte) (list []string, ok bool) {
	w := walker{data: array, maxDepth: 1}
	more, _ := w.enter(']')
	for list = make([]string, 0, min(bytes.Count(array, []byte{','})+1, usualList)); more; more, _ = w.next(']') {
		w.space()
		begin := w.pos
		switch {
		case w.peek() == '"':
			_, _, _ = w.text()
			list = append(list, textOf(array[begin:w.pos]))
		case w.scalar() && string(array[begin:w.pos]) == "null":
			list = append(list, "")
		default:
			return list, false
		}
	}
	return list, true
}
