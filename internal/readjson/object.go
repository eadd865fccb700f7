package readjson

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// Object reads the members of an object, each with its name, in their order. One that is not there
// changes nothing. Names are constants of characters that are not escaped.
type Object struct {
	rest  string
	later bool // a member was read
	other bool // the text has another form
}

// Begin begins to read the object at the beginning of a text. Strings of the object are parts of it.
func Begin(text string) Object {
	if text == "" || text[0] != '{' {
		return Object{other: true}
	}
	return Object{rest: text[1:]}
}

// End returns what follows the object, and whether all that was read has the form.
func (o *Object) End() (rest string, ok bool) {
	if o.other || o.rest == "" || o.rest[0] != '}' {
		return "", false
	}
	return o.rest[1:], true
}

// Whole reports whether all that was read has the form, and nothing follows.
func (o *Object) Whole() bool {
	rest, ok := o.End()
	return ok && rest == ""
}

// has goes to the value of a member if that is the next one.
func (o *Object) has(name string) bool {
	s := o.rest
	if o.later {
		if s == "" || s[0] != ',' {
			return false
		}
		s = s[1:]
	}
	if n := len(name) + len(`"":`); len(s) > n && s[0] == '"' && s[1:n-2] == name && s[n-2] == '"' && s[n-1] == ':' {
		o.rest, o.later = s[n:], true
		return true
	}
	return false
}

// hasValue is has for a member that may be null, which changes nothing.
func (o *Object) hasValue(name string) bool {
	if !o.has(name) {
		return false
	}
	rest, null := strings.CutPrefix(o.rest, "null")
	if null {
		o.rest = rest
	}
	return !null
}

// goOn goes on behind a value, if it was one.
func (o *Object) goOn(rest string, ok bool) {
	o.rest, o.other = rest, o.other || !ok
}

// Text reads a string.
func (o *Object) Text(name string, to *string) {
	if o.has(name) {
		value, rest, ok := text(o.rest)
		*to = value
		o.goOn(rest, ok)
	}
}

// List reads an array of strings, or null.
func (o *Object) List(name string, to *[]string) {
	if o.hasValue(name) {
		value, rest, ok := list(o.rest)
		*to = value
		o.goOn(rest, ok)
	}
}

// Bytes reads bytes in base64, or null. They are no part of the text.
func (o *Object) Bytes(name string, to *[]byte) {
	if o.hasValue(name) {
		value, rest, ok := bytes(o.rest)
		*to = value
		o.goOn(rest, ok)
	}
}

// Time reads a time.
func (o *Object) Time(name string, to *time.Time) {
	if o.has(name) {
		value, rest, ok := instant(o.rest)
		*to = value
		o.goOn(rest, ok)
	}
}

// Flag reads true.
func (o *Object) Flag(name string, to *bool) {
	if o.has(name) {
		rest, ok := strings.CutPrefix(o.rest, "true")
		*to = ok
		o.goOn(rest, ok)
	}
}

// Number reads an integer in its shortest form.
func Number[N int | int64 | uint32](o *Object, name string, to *N) {
	if !o.has(name) {
		return
	}
	n := max(strings.IndexAny(o.rest, ",}"), 0)
	digits, negative := strings.CutPrefix(o.rest[:n], "-")
	size, err := strconv.ParseUint(digits, 10, 64)
	value := N(size)
	fits := uint64(value) == size
	if negative {
		value = -value
	}
	*to = value
	o.goOn(o.rest[n:], err == nil && fits && value < 0 == negative && (digits[0] != '0' || n == 1))
}

// Any reads a value that encoding/json reads.
func (o *Object) Any(name string, to any) {
	if o.has(name) {
		value, rest, ok := value(o.rest)
		o.goOn(rest, ok && json.Unmarshal([]byte(value), to) == nil)
	}
}

// Value reads a value that read reads at the beginning of a text. It returns what follows, and whether
// the value has the form.
func (o *Object) Value(name string, read func(text string) (rest string, ok bool)) {
	if o.has(name) {
		o.goOn(read(o.rest))
	}
}

// Values reads an array of what read reads, or null.
func Values[S ~[]T, T any](o *Object, name string, to *S, read func(to *T, text string) (rest string, ok bool)) {
	if !o.hasValue(name) {
		return
	}
	*to = S{}
	o.goOn(array(o.rest, func(s string) (rest string, ok bool) {
		var one T
		*to = append(*to, one)
		return read(&(*to)[len(*to)-1], s)
	}))
}
