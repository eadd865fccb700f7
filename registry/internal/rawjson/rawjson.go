// Package rawjson splits JSON objects into members and joins members to objects; every member
// keeps its original bytes. The registry passes records on, and a signature or a digest of a
// record must stay valid.
package rawjson

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
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

// Members returns the members of an object, which share memory with it. It returns nil if the
// argument is not an object or not valid JSON.
func Members(object []byte) []Member {
	members, ok := AppendMembers(make([]Member, 0, 12), object)
	if !ok {
		return nil
	}
	return members
}

// AppendMembers appends the members of an object to a list. It returns the list as it was, and
// false, if the argument is not an object or not valid JSON. A list that is used again after
// [:0] saves the memory of names that stand at the same places as before.
func AppendMembers(members []Member, data []byte) ([]Member, bool) {
	all, _, ok := AppendInside("", members, nil, data)
	return all, ok
}

// AppendInside is AppendMembers that also appends to inner the members of the first member called name,
// if that is an object: with offsets in the whole object, and the inner object is not read again.
func AppendInside(name string, members, inner []Member, data []byte) (all, inside []Member, ok bool) {
	data = bytes.Trim(data, " \t\r\n")
	if !IsObject(data) {
		return members, inner, false
	}
	l := list{members: members, inner: inner, inside: name}
	if object(data, 0, 1, &l) != len(data) {
		return members, inner, false
	}
	return l.members, l.inner, true
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

// skipString returns the index behind the string that begins at i.
func skipString(b []byte, i int) int {
	for i++; b[i] != '"'; i++ {
		if b[i] == '\\' {
			i++
		}
	}
	return i + 1
}

// frequent are names of members in records. Members with such a name share its text.
var frequent = func() map[string]string {
	names := map[string]string{}
	for name := range strings.FieldsSeq("name version description title repository remotes packages websiteUrl icons $schema status _meta server " +
		"io.modelcontextprotocol.registry/official io.modelcontextprotocol.registry/publisher-provided") {
		names[name] = name
	}
	return names
}()

// nameThere returns the name of the member that was at the place behind a list before the list became
// shorter, "" for none. The members of many records stand in the same order.
func nameThere(list []Member) string {
	if n := len(list); n < cap(list) {
		return list[:n+1][n].Name
	}
	return ""
}

// unquoted returns the text of a JSON string. It returns likely itself if that is the text.
func unquoted(quoted []byte, likely string) string {
	plain := quoted[1 : len(quoted)-1]
	escaped := bytes.IndexByte(plain, '\\') >= 0
	if !escaped && likely != "" && string(plain) == likely { // so it is UTF-8
		return likely
	}
	if name := frequent[string(plain)]; name != "" {
		return name
	}
	if !escaped && utf8.Valid(plain) {
		return string(plain)
	}
	var s string
	_ = json.Unmarshal(quoted, &s) // cannot fail: the string is valid
	return s
}
