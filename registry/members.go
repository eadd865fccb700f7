package registry

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// member is one member of an object as it was written.
type member struct {
	name  string
	text  string // the name, the colon and the value
	value json.RawMessage
}

// membersOf takes an object apart. What is no object, or no JSON, has no members.
func membersOf(object []byte) []member {
	decoder := json.NewDecoder(bytes.NewReader(object))
	if first, err := decoder.Token(); err != nil || first != json.Delim('{') {
		return nil
	}
	var members []member
	for decoder.More() {
		begin := decoder.InputOffset()
		name, err := decoder.Token()
		var m member
		if err != nil || decoder.Decode(&m.value) != nil {
			return nil
		}
		m.name, _ = name.(string)
		m.text = strings.TrimLeft(string(object[begin:decoder.InputOffset()]), ", \t\r\n")
		members = append(members, m)
	}
	return members
}

// objectOf puts members together. Each is as it was written.
func objectOf(members []member) []byte {
	texts := make([]string, len(members))
	for i, m := range members {
		texts[i] = m.text
	}
	return []byte("{" + strings.Join(texts, ",") + "}")
}

// find returns the value of a member, nil if there is none.
func find(members []member, name string) json.RawMessage {
	for _, m := range members {
		if m.name == name {
			return m.value
		}
	}
	return nil
}

// without returns an object without a member.
func without(object []byte, name string) []byte {
	return objectOf(slices.DeleteFunc(membersOf(object), func(m member) bool { return m.name == name }))
}

// with returns an object in which a member has another value.
func with(object []byte, name string, value []byte) []byte {
	members := membersOf(object)
	for i := range members {
		if members[i].name == name {
			quoted, _ := json.Marshal(name)
			members[i].text = string(quoted) + ":" + string(value)
		}
	}
	return objectOf(members)
}
