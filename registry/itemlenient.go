package registry

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"

	"gatehouse.example/registry/internal/rawjson"
)

// lenient returns an item without two kinds of members for which a record should not be
// refused: _meta that is null, and unknown members that are nested too deeply. All other
// members keep their bytes. Invalid JSON is returned unchanged.
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
	type item struct { // the record is the item itself or its member server
		known
		Server known `json:"server"`
	}
	return shallow(data, reflect.TypeFor[item](), MaxDepth)
}

// withoutNull returns an object without _meta if that is null. A second _meta with a value is
// left for the validation to refuse.
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

// shallow returns a value of at most depth levels, if removing members that its type does not
// have is enough for that.
func shallow(value []byte, t reflect.Type, depth int) []byte {
	if rawjson.Depth(value) <= depth {
		return value
	}
	switch {
	case rawjson.IsObject(value) && t.Kind() == reflect.Struct:
		fields := jsonFields(t)
		return shallowMembers(value, depth, func(name string) (reflect.Type, bool) {
			field, ok := fields[name]
			return field, ok
		})
	case rawjson.IsObject(value) && t.Kind() == reflect.Map: // no key of a map is known
		return shallowMembers(value, depth, func(string) (reflect.Type, bool) { return nil, false })
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct:
		return shallowElements(value, t.Elem(), depth)
	}
	return value
}

func shallowMembers(object []byte, depth int, known func(name string) (reflect.Type, bool)) []byte {
	var kept []rawjson.Member
	for _, m := range rawjson.Members(object) {
		t, ok := known(m.Name)
		if !ok && rawjson.Depth(m.Value) > depth-1 {
			continue
		}
		if ok {
			if plain := shallow(m.Value, t, depth-1); len(plain) != len(m.Value) {
				m.Text = slices.Concat(m.Text[:len(m.Text)-len(m.Value)], plain)
			}
		}
		kept = append(kept, m)
	}
	return rawjson.Object(kept)
}

func shallowElements(list []byte, t reflect.Type, depth int) []byte {
	var elements []json.RawMessage
	if json.Unmarshal(list, &elements) != nil {
		return list
	}
	for i := range elements {
		elements[i] = shallow(elements[i], t, depth-1)
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
