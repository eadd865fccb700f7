package registry

import (
	"bytes"
	"encoding/json"
	"gatehouse.example/registry/internal/rawjson"
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
	if server := rawjson.Find(rawjson.Members(data), "server"); rawjson.IsObject(server) {
		if plain := withoutNull(server); !bytes.Equal(plain, server) {
			data = rawjson.With(data, "server", plain)
		}
	}
	if rawjson.Depth(data) <= itemBounds.MaxDepth {
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
	members := rawjson.Members(object)
	isMeta := func(m rawjson.Member) bool { return m.Name == "_meta" }
	if string(rawjson.Find(members, "_meta")) != "null" || slices.ContainsFunc(slices.DeleteFunc(slices.Clone(members), func(m rawjson.Member) bool {
		return isMeta(m) && string(m.Value) == "null"
	}), isMeta) {
		return object
	}
	return rawjson.Without(object, "_meta")
}

// shallow returns a value without the members that its type does not know and that have more
// levels than there is room for.
func shallow(value []byte, t reflect.Type, room int) []byte {
	if rawjson.Depth(value) <= room {
		return value
	}
	switch {
	case rawjson.IsObject(value) && t.Kind() == reflect.Struct:
		fields := jsonFields(t)
		return shallowMembers(value, room, func(name string) (reflect.Type, bool) {
			field, ok := fields[name]
			return field, ok
		})
	case rawjson.IsObject(value) && t.Kind() == reflect.Map: // its keys are anybody's
		return shallowMembers(value, room, func(string) (reflect.Type, bool) { return nil, false })
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct:
		return shallowElements(value, t.Elem(), room)
	}
	return value
}

func shallowMembers(object []byte, room int, known func(name string) (reflect.Type, bool)) []byte {
	var kept []rawjson.Member
	for _, m := range rawjson.Members(object) {
		t, ok := known(m.Name)
		if !ok && rawjson.Depth(m.Value) > room-1 {
			continue
		}
		if ok {
			if plain := shallow(m.Value, t, room-1); len(plain) != len(m.Value) {
				m.Text = slices.Concat(m.Text[:len(m.Text)-len(m.Value)], plain)
			}
		}
		kept = append(kept, m)
	}
	return rawjson.Object(kept)
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
