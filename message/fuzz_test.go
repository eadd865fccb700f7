package message_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gatehouse.example/message"
)

// FuzzDecode: a decoded message has the same meaning after it was encoded, to this package and to
// encoding/json, including the digits of numbers. The response to a refused message is a valid
// message, if there is one.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"n":1e400,"m":1.0}}}`,
		`{"jsonrpc":"2.0","id":"\ud83d\ude00","method":"a","params":{"_meta":{"progressToken":9007199254740993,"a/b":[]}}}`,
		`{"jsonrpc":"2.0","id":123456789012345678901234567890,"method":"<\u2028>"}`, "{\"jsonrpc\":\"2.0\"\n,\"method\":\"a\",\"params\":{ } }",
		`{"jsonrpc":"2.0","id":-1,"result":{"a":[{"}":"]"}]}}`, `{"jsonrpc":"2.0","error":{"code":-32700,"message":"\n","data":null,"more":1}}`,
		`[{"jsonrpc":"2.0","id":1,"method":"a"}]`, `{"jsonrpc":"2.0","id":1,"id":2,"method":"a"}`, `{"jsonrpc":"2.0","METHOD":"a"}`, `{"\u0069d":null}`, ``, `{}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		kept := bytes.Clone(data)
		m, err := message.Decode(data, message.Limits{})
		if !bytes.Equal(kept, data) {
			t.Fatal("the caller's data was changed")
		}
		if err == nil {
			sameMeaning(t, data, m)
			return
		}
		var refused *message.DecodeError
		if m != nil || !errors.As(err, &refused) {
			t.Fatalf("%v, %v", m, err)
		}
		answer(t, refused)
	})
}

func sameMeaning(t *testing.T, data []byte, m message.Message) {
	t.Helper()
	written, err := message.Encode(m)
	if err != nil {
		t.Fatalf("%+v cannot be encoded: %v", m, err)
	}
	limits := message.Limits{MaxBytes: 8 * len(written), MaxDepth: 64}
	again, err := message.Decode(written, limits)
	if err != nil {
		t.Fatalf("%s cannot be decoded: %v", written, err)
	}
	if twice, err := message.Encode(again); err != nil || !bytes.Equal(twice, written) {
		t.Fatalf("first %s, then %s, %v", written, twice, err)
	}
	if want, got := untyped(t, data), untyped(t, written); !reflect.DeepEqual(want, got) {
		t.Fatalf("%s means something else than %s", written, data)
	}
	sameMembers(t, m, untyped(t, data))
}

// sameMembers compares the members of parameters and results, including those of _meta.
func sameMembers(t *testing.T, m message.Message, want map[string]any) {
	t.Helper()
	var o message.Object
	switch m := m.(type) {
	case message.Request:
		o, want = m.Params, inner(want, "params")
	case message.Notification:
		o, want = m.Params, inner(want, "params")
	case message.ResultResponse:
		o, want = m.Result, inner(want, "result")
	default:
		return
	}
	for name := range want {
		value, err := o.Member(name)
		if err == nil && !reflect.DeepEqual(untyped(t, []byte(`{"v":`+string(value)+`}`))["v"], want[name]) {
			t.Fatalf("%q is %s, want %v", name, value, want[name])
		}
	}
	meta, err := o.Meta()
	if keys := slices.Collect(maps.Keys(inner(want, "_meta"))); err == nil && !sameKeys(meta, keys) {
		t.Fatalf("%v, want %q", meta, keys)
	}
}

func inner(v map[string]any, name string) map[string]any {
	object, _ := v[name].(map[string]any)
	return object
}

func sameKeys(meta message.Meta, keys []string) bool {
	return slices.Equal(slices.Sorted(maps.Keys(meta)), slices.Sorted(slices.Values(keys)))
}

// untyped decodes a message with encoding/json, without unknown members of an error and the sign
// of the code 0.
func untyped(t *testing.T, data []byte) map[string]any {
	t.Helper()
	var v map[string]any
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	if e := inner(v, "error"); e != nil {
		if e["code"] == json.Number("-0") {
			e["code"] = json.Number("0")
		}
		for name := range e {
			if !slices.Contains([]string{"code", "message", "data"}, name) {
				delete(e, name)
			}
		}
	}
	return v
}

// FuzzMetaKey compares with the grammar of the protocol as a regular expression.
func FuzzMetaKey(f *testing.F) {
	for _, seed := range []string{"", "a", "a/b", "com.example/", "io.modelcontextprotocol/x", "dev.mcp/a.b", "a-/b", "a/b/c", "/a", "1/a", "\xff", "é", "a..b/c", "mcp/x"} {
		f.Add(seed)
	}
	const label = `[A-Za-z](?:[-A-Za-z0-9]*[A-Za-z0-9])?`
	grammar := regexp.MustCompile(`\A(?:(` + label + `(?:\.` + label + `)*)/)?((?:[A-Za-z0-9](?:[-_.A-Za-z0-9]*[A-Za-z0-9])?)?)\z`)
	f.Fuzz(func(t *testing.T, s string) {
		key, err := message.ParseMetaKey(s)
		parts := grammar.FindStringSubmatch(s)
		if (err == nil) != (parts != nil) {
			t.Fatalf("%q: %v", s, err)
		}
		if err != nil {
			return
		}
		if key != (message.MetaKey{Prefix: parts[1], Name: parts[2]}) || key.String() != s {
			t.Fatalf("%q: %+v", s, key)
		}
		labels := append(strings.Split(key.Prefix, "."), "")
		if reserved := labels[1] == "modelcontextprotocol" || labels[1] == "mcp"; key.Reserved() != reserved {
			t.Fatalf("%q: reserved is %v", s, !reserved)
		}
	})
}

// request1K is a request of 1 KiB that calls a tool.
func request1K() []byte {
	const begin = `{"jsonrpc":"2.0","id":42,"method":"tools/call","params":{"_meta":{"progressToken":"p-1","io.modelcontextprotocol/protocolVersion":"2026-07-28"},` +
		`"name":"add_note","arguments":{"title":"Groceries","tags":["home","today"],"text":"`
	const end = `"}}}`
	return []byte(begin + strings.Repeat("x", 1024-len(begin)-len(end)) + end)
}

func BenchmarkDecode(b *testing.B) {
	data := request1K()
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := message.Decode(data, message.Limits{}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPolicy reads the parts of a request that a guard needs: method, tool and revision.
func BenchmarkPolicy(b *testing.B) {
	data := request1K()
	b.ReportAllocs()
	for b.Loop() {
		m, err := message.Decode(data, message.Limits{})
		if err != nil {
			b.Fatal(err)
		}
		params := m.(message.Request).Params
		name, err := params.Member("name")
		meta, bad := params.Meta()
		if version, worse := meta.ProtocolVersion(); name == nil || version == "" || errors.Join(err, bad, worse) != nil {
			b.Fatal(name, version, err, bad, worse)
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	m, err := message.Decode(request1K(), message.Limits{})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := message.Encode(m); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSessionIDs(b *testing.B) {
	var s message.SessionIDs
	n := int64(0)
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Use(message.NumberID(n)); err != nil {
			b.Fatal(err)
		}
		n++
	}
}
