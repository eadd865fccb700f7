// Package rawjson splits JSON objects into members and joins members to objects; every member
// keeps its original bytes. The registry passes records on, and a signature or a digest of a
// record must stay valid.
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
	At    int // offset of the value in the object
}

// New returns a member with a name and a value, which must be valid JSON.
func New(name string, value json.RawMessage) Member {
	quoted, _ := json.Marshal(name) // cannot fail for a string
	return Member{Name: name, Text: slices.Concat(quoted, []byte(":"), value), Value: value}
}

// Named returns a function that reports whether a member has the given name.
func Named(name string) func(Member) bool { return func(m Member) bool { return m.Name == name } }

// IsObject reports whether value is an object. The value must be JSON without white space in
// front.
func IsObject(value []byte) bool { return len(value) > 0 && value[0] == '{' }

// Members returns the members of an object. It returns nil if the argument is not an object or
// not valid JSON.
func Members(object []byte) []Member {
	object = bytes.Trim(object, " \t\r\n")
	if !IsObject(object) || !json.Valid(object) {
		return nil
	}
	return Split(object)
}

// Split is [Members] for JSON that is known to be valid and has no white space in front. The
// members share memory with the object.
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

// Object returns an object of the members, with their original bytes.
func Object(members []Member) []byte { return AppendObject(nil, members) }

// AppendObject appends an object of the members to b.
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

// Find returns the value of the first member with the given name, nil if there is none.
func Find(members []Member, name string) json.RawMessage {
	if i := slices.IndexFunc(members, Named(name)); i >= 0 {
		return members[i].Value
	}
	return nil
}

// Without returns the object without the members of the given name.
func Without(object []byte, name string) []byte {
	return Object(slices.DeleteFunc(Members(object), Named(name)))
}

// With returns the object with another value for an existing member. It does not add a member.
func With(object []byte, name string, value []byte) []byte {
	members := Members(object)
	for i := range members {
		if members[i].Name == name {
			members[i] = New(name, value)
		}
	}
	return Object(members)
}

// Depth returns the number of nested arrays and objects in valid JSON, 0 for a scalar.
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

// skipBlank returns the index of the first byte from i on that is not white space.
func skipBlank(b []byte, i int) int {
	for b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t' {
		i++
	}
	return i
}

// skipString returns the index behind the string that begins at i.
func skipString(b []byte, i int) int {
	for i++; b[i] != '"'; i++ {
		if b[i] == '\\' {
			i++
		}
	}
	return i + 1
}

// skipValue returns the index behind the value that begins at i.
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

// skipScalar returns the index behind the number or literal that begins at i.
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
	_ = json.Unmarshal(quoted, &s) // cannot fail: the string is valid
	return s
}
