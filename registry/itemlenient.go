package registry

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
)

// lenient returns an item without what an upstream may have written that is worth less than
// the record: _meta that is null, and members that are not known and nested too deep. All
// else keeps its bytes. What is no item comes back as it is.
func lenient(data []byte) []byte {
	if !json.Valid(data) {
		return data
	}
	data = withoutNull(data)
	if server := find(membersOf(data), "server"); isObject(server) {
		if plain := withoutNull(server); !bytes.Equal(plain, server) {
			data = with(data, "server", plain)
		}
	}
	if depth(data) <= itemBounds.MaxDepth {
		return data
	}
	type item struct { // a record, or one under server, or both
		known
		Server known `json:"server"`
	}
	return shallow(data, reflect.TypeFor[item](), MaxDepth)
}

// withoutNull returns an object without _meta if that is null. If it is there twice, that is
// for others to refuse.
func withoutNull(object []byte) []byte {
	members := membersOf(object)
	isMeta := func(m member) bool { return m.name == "_meta" }
	if string(find(members, "_meta")) != "null" || slices.ContainsFunc(slices.DeleteFunc(slices.Clone(members), func(m member) bool {
		return isMeta(m) && string(m.value) == "null"
	}), isMeta) {
		return object
	}
	return without(object, "_meta")
}

// shallow returns a value without the members that its type does not know and that have more
// levels than there is room for.
func shallow(value []byte, t reflect.Type, room int) []byte {
	if depth(value) <= room {
		return value
	}
	switch {
	case isObject(value) && t.Kind() == reflect.Struct:
		fields := jsonFields(t)
		return shallowMembers(value, room, func(name string) (reflect.Type, bool) {
			field, ok := fields[name]
			return field, ok
		})
	case isObject(value) && t.Kind() == reflect.Map: // its keys are anybody's
		return shallowMembers(value, room, func(string) (reflect.Type, bool) { return nil, false })
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct:
		return shallowElements(value, t.Elem(), room)
	}
	return value
}

func shallowMembers(object []byte, room int, known func(name string) (reflect.Type, bool)) []byte {
	var kept []member
	for _, m := range membersOf(object) {
		t, ok := known(m.name)
		if !ok && depth(m.value) > room-1 {
			continue
		}
		if ok {
			if plain := shallow(m.value, t, room-1); len(plain) != len(m.value) {
				m.text = m.text[:len(m.text)-len(m.value)] + string(plain)
			}
		}
		kept = append(kept, m)
	}
	return objectOf(kept)
}

func shallowElements(list []byte, t reflect.Type, room int) []byte {
	var elements []json.RawMessage
	if json.Unmarshal(list, &elements) != nil {
		return list
	}
	for i := range elements {
		elements[i] = shallow(elements[i], t, room-1)
	}
	return slices.Concat([]byte("["), bytes.Join(rawBytes(elements), []byte(",")), []byte("]"))
}

func rawBytes(values []json.RawMessage) [][]byte {
	all := make([][]byte, len(values))
	for i, v := range values {
		all[i] = v
	}
	return all
}

// depth returns how deep arrays and objects are nested in a value that is valid JSON.
func depth(value []byte) (most int) {
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
