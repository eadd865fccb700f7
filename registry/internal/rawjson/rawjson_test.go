package rawjson_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"gatehouse.example/registry/internal/rawjson"
)

// FuzzMembers: Members returns the members that encoding/json decodes, and Object joins them to
// an equal object.
func FuzzMembers(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"a":1}`, ` { "a" : [1, {"b":"}"}] , "c":null } `, `{"a":"\"\\","b":-1.5e+3,"c":true}`, `{"a":{}}`, `{"\u0061":[],"a":{"x":[[]]}}`,
		"{\"\xff\":1}", `[1]`, `"a"`, `{"a":1`, `{"a":1}x`, ``,
	} {
		f.Add([]byte(seed))
	}
	f.Add([]byte(`{"a":1e999}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		members := rawjson.Members(data)
		var want map[string]json.RawMessage
		if json.Unmarshal(data, &want) != nil || want == nil {
			if members != nil {
				t.Fatalf("%q has members %v", data, members)
			}
			return
		}
		got := map[string]json.RawMessage{}
		for _, m := range members {
			got[m.Name] = m.Value // encoding/json also uses the last of two equal names
			if object := bytes.Trim(data, " \t\r\n"); !bytes.HasPrefix(object[m.At:], m.Value) || !bytes.HasSuffix(m.Text, m.Value) {
				t.Errorf("%q: %s is not at %d", data, m.Value, m.At)
			}
		}
		if len(got) != len(want) {
			t.Fatalf("%q has members %v, want %v", data, got, want)
		}
		for name, value := range want {
			if !bytes.Equal(got[name], value) {
				t.Errorf("%q: %q is %s, want %s", data, name, got[name], value)
			}
		}
		if a, b := decoded(t, data), decoded(t, rawjson.Object(members)); !same(a, b) {
			t.Errorf("%q becomes %s", data, rawjson.Object(members))
		}
	})
}

// FuzzValid: Valid takes what encoding/json takes, and nothing else.
func FuzzValid(f *testing.F) {
	for _, seed := range []string{
		``, ` `, ` 1 `, `-`, `-0`, `01`, `1.`, `1.5e`, `1E+5`, `1e-07`, `+1`, `.5`, `true`, `tru`, `truex`, `null `, `[`, `[]`, `[ ]`, `[1,]`, `[,1]`, `[1 2]`, `{,}`,
		`{"a":1,}`, `{"a"}`, `{"a":}`, `{a:1}`, `{"a" : 1 , "b":[{}]}`, `"\u12aF"`, `"\u12g4"`, `"\x"`, `"\`, `"`, "\"\t\"", "\"\xff\"", "\x00", "[]\x00", `{}{}`, "\ufeff{}",
		strings.Repeat("[", 9999) + strings.Repeat("]", 9999), strings.Repeat("[", 10001) + strings.Repeat("]", 10001), strings.Repeat(`{"a":`, 20000),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if got, want := rawjson.Valid(data), json.Valid(data); got != want {
			t.Errorf("%.100q is valid: %t, want %t", data, got, want)
		}
	})
}

// TestBytes puts each byte at each place of strings, which are read eight bytes at a time, and between
// values.
func TestBytes(t *testing.T) {
	for length := range 20 {
		for place := range length {
			for c := range 256 {
				text := bytes.Repeat([]byte{'a'}, length+2)
				text[0], text[length+1], text[1+place] = '"', '"', byte(c)
				between := append(append([]byte{'['}, bytes.Repeat([]byte{byte(c)}, length)...), '1', byte(c), ']')
				for _, data := range [][]byte{text, between, append(bytes.Repeat([]byte{0x80}, 3), text...), append([]byte{'['}, append(text, ']')...)} {
					if got, want := rawjson.Valid(data), json.Valid(data); got != want {
						t.Fatalf("%q is valid: %t, want %t", data, got, want)
					}
				}
			}
		}
	}
}

// TestListUsedAgain: members in a list that had others before are those in a new one, whatever names
// stood at their places, and the names of others do not change.
func TestListUsedAgain(t *testing.T) {
	objects := []string{
		`{"a":1,"example.com/x":2,"c":3}`, `{"a":1,"example.com/x":[2],"c":{}}`, `{"example.com/x":1}`, `{}`, `{"a\\u0062":1}`, `{"a\u0062":1}`, `{"a\\u0062":1}`,
		"{\"\ufffd\":1}", "{\"\xff\":1}", `{"":0}`, `{"name":1,"":2}`, `{"":1,"name":2,"a":3,"b":4,"c":5}`,
	}
	for _, first := range objects {
		for _, second := range objects {
			before, _ := rawjson.AppendMembers(nil, []byte(first))
			names := append([]rawjson.Member{}, before...)
			again, ok := rawjson.AppendMembers(before[:0], []byte(second))
			if want, _ := rawjson.AppendMembers(nil, []byte(second)); !ok || !reflect.DeepEqual(append([]rawjson.Member{}, again...), append([]rawjson.Member{}, want...)) {
				t.Errorf("%s after %s has members %+v, want %+v", second, first, again, want)
			}
			if want, _ := rawjson.AppendMembers(nil, []byte(first)); !reflect.DeepEqual(names, append([]rawjson.Member{}, want...)) {
				t.Errorf("%s before %s becomes %+v, want %+v", first, second, names, want)
			}
		}
	}
	list, object := make([]rawjson.Member, 0, 4), []byte(`{"example.com/x":1,"example.com/y":2}`)
	if n := testing.AllocsPerRun(10, func() { list, _ = rawjson.AppendMembers(list[:0], object) }); n != 0 {
		t.Errorf("names that were there before take %v allocations", n)
	}
}

// TestAppendInside: the inner members are those of the first member of the name, as AppendMembers
// reads them, none if that is no object.
func TestAppendInside(t *testing.T) {
	for _, data := range []string{
		`{"_meta":{"a":1,"b":{"_meta":{"c":2}}},"d":3}`, ` {"a":{"_meta":{"b":1}}} `, `{"_meta":{"a":1},"_meta":{"b":1}}`, `{"_meta":[1],"_meta":{"b":1}}`,
		`{"\u005fmeta":{"a":1},"_meta":{"b":1}}`, `{"_meta" : { } }`, `{"_meta":null}`, `{"":{"a":1}}`, `{}`,
	} {
		all, inside, ok := rawjson.AppendInside("_meta", nil, nil, []byte(data))
		want := rawjson.Members([]byte(data))
		if len(want) == 0 {
			want = nil
		}
		if !ok || !reflect.DeepEqual(all, want) {
			t.Errorf("%s has members %+v, %t; want %+v", data, all, ok, want)
		}
		if want := rawjson.Members(rawjson.Find(want, "_meta")); !bytes.Equal(rawjson.Object(inside), rawjson.Object(want)) || len(inside) != len(want) {
			t.Errorf("%s has inside %+v, want %+v", data, inside, want)
		}
	}
	kept := rawjson.Members([]byte(`{"kept":1}`))
	for _, data := range []string{`{"_meta":{"a":1}`, `{"_meta":{"a":1,}}`, `[1]`, `{"_meta":{"a":1}}x`} {
		if all, inside, ok := rawjson.AppendInside("_meta", kept, kept, []byte(data)); ok || len(all) != 1 || len(inside) != 1 {
			t.Errorf("%s has members %+v and %+v, %t", data, all, inside, ok)
		}
	}
}

// decoded decodes an object. Numbers keep their digits, so that none is too large.
func decoded(t *testing.T, data []byte) (value any) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		t.Fatalf("%q: %v", data, err)
	}
	return value
}

func same(a, b any) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return bytes.Equal(x, y)
}

// TestChanges: With and Without keep the bytes of all other members.
func TestChanges(t *testing.T) {
	const object = `{ "a" : 1.0 ,"b":"\u0062", "c" : {"a": 2} }`
	for what, test := range map[string]struct{ got, want string }{
		"without":          {string(rawjson.Without([]byte(object), "b")), `{"a" : 1.0,"c" : {"a": 2}}`},
		"with":             {string(rawjson.With([]byte(object), "a", []byte("3"))), `{"a":3,"b":"\u0062","c" : {"a": 2}}`},
		"with none such":   {string(rawjson.With([]byte(object), "d", []byte("3"))), `{"a" : 1.0,"b":"\u0062","c" : {"a": 2}}`},
		"the value of one": {string(rawjson.Find(rawjson.Members([]byte(object)), "c")), `{"a": 2}`},
		"of none":          {string(rawjson.Find(rawjson.Members([]byte(object)), "d")), ``},
	} {
		if test.got != test.want {
			t.Errorf("%s: %s, want %s", what, test.got, test.want)
		}
	}
	for text, want := range map[string]int{`1`: 0, `"[["`: 0, `{}`: 1, `[{"a":["}"]}]`: 3} {
		if got := rawjson.Depth([]byte(text)); got != want {
			t.Errorf("%s has depth %d, want %d", text, got, want)
		}
	}
}
