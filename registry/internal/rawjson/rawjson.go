// Package rawjson takes JSON objects apart and puts them together again while every member
// keeps the bytes in which it came. Records are passed on to others, and a signature or a
// digest that somebody made of one must stay true.
package rawjson

import (
	"bytes"
	"encoding/json"
	"slices"
	"unicode/utf8"
)

// Member is one member of an object, in the bytes of the object.
type Member struct {
	Name  string
	Text  []byte // the name, the colon and the value
	Value json.RawMessage
	At    int // where the value begins in the object
}

// New returns a member that is not taken from an object. The value must be valid JSON.
func New(name string, value json.RawMessage) Member {
	quoted, _ := json.Marshal(name) // a string can be written
	return Member{Name: name, Text: slices.Concat(quoted, []byte(":"), value), Value: value}
}

// Named returns a function that reports whether a member has a name.
func Named(name string) func(Member) bool { return func(m Member) bool { return m.Name == name } }

// IsObject reports whether JSON without white space around it is an object.
func IsObject(value []byte) bool { return len(value) > 0 && value[0] == '{' }

// Members takes an object apart. What is no object, or no valid JSON, has no members.
func Members(object []byte) []Member {
	object = bytes.Trim(object, " \t\r\n")
	if !IsObject(object) || !json.Valid(object) {
		return nil
	}
	return Split(object)
}

// Split is [Members] for JSON that is known to be valid, with no white space before it. What
// is no object has no members. Nothing is copied.
func Split(object []byte) []Member {
	if !IsObject(object) {
		return nil
	}
	members := make([]Member, 0, 12)
	for i := skipBlank(object, 1); object[i] == '"'; {
		end := skipString(object, i)
		m := Member{Name: unquoted(object[i:end]), At: skipBlank(object, skipBlank(object, end)+1)}
		after := skipValue(object, m.At)
		m.Text, m.Value = object[i:after], object[m.At:after:after]
		members = append(members, m)
		if i = skipBlank(object, after); object[i] == ',' {
			i = skipBlank(object, i+1)
		}
	}
	return members
}

// Object puts members together. Each is as it was written.
func Object(members []Member) []byte { return AppendObject(nil, members) }

// AppendObject appends an object of members.
func AppendObject(b []byte, members []Member) []byte {
	b = append(b, '{')
	for i, m := range members {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, m.Text...)
	}
	return append(b, '}')
}

// Find returns the value of the first member with a name, nil if there is none.
func Find(members []Member, name string) json.RawMessage {
	if i := slices.IndexFunc(members, Named(name)); i >= 0 {
		return members[i].Value
	}
	return nil
}

// Without returns an object without a member.
func Without(object []byte, name string) []byte {
	return Object(slices.DeleteFunc(Members(object), Named(name)))
}

// With returns an object in which a member that it has gets another value.
func With(object []byte, name string, value []byte) []byte {
	members := Members(object)
	for i := range members {
		if members[i].Name == name {
			members[i] = New(name, value)
		}
	}
	return Object(members)
}

// Depth returns how deep arrays and objects are nested in valid JSON.
func Depth(value []byte) (most int) {
	level := 0
	for i := 0; i < len(value); i++ {
		switch value[i] {
		case '"':
			i = skipString(value, i) - 1
		case '{', '[':
			level++
			most = max(most, level)
		case '}', ']':
			level--
		}
	}
	return most
}

// skipBlank returns the place of the first byte from i on that is no white space.
func skipBlank(b []byte, i int) int {
	for b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t' {
		i++
	}
	return i
}

// skipString returns the place behind the string that begins at i.
func skipString(b []byte, i int) int {
	for i++; b[i] != '"'; i++ {
		if b[i] == '\\' {
			i++
		}
	}
	return i + 1
}

// skipValue returns the place behind the value that begins at i.
func skipValue(b []byte, i int) int {
	for depth := 0; ; {
		switch b[i] {
		case '"':
			i = skipString(b, i)
		case '{', '[':
			depth, i = depth+1, i+1
			continue
		case '}', ']':
			depth, i = depth-1, i+1
		case ',', ':', ' ', '\n', '\r', '\t':
			i++
			continue
		default:
			i = skipScalar(b, i)
		}
		if depth == 0 {
			return i
		}
	}
}

// skipScalar returns the place behind the number or the word that begins at i.
func skipScalar(b []byte, i int) int {
	for i < len(b) && bytes.IndexByte([]byte(",]} \n\r\t"), b[i]) < 0 {
		i++
	}
	return i
}

// unquoted returns the text of a JSON string.
func unquoted(quoted []byte) string {
	if bytes.IndexByte(quoted, '\\') < 0 && utf8.Valid(quoted) {
		return string(quoted[1 : len(quoted)-1])
	}
	var s string
	_ = json.Unmarshal(quoted, &s) // it is valid
	return s
}
