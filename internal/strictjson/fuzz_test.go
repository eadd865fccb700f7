package strictjson_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"gatehouse.example/internal/strictjson"
)

// FuzzUnmarshal checks three properties of every accepted document: encoding/json accepts it too;
// the untyped values are equal; and the typed values are equal after all names are removed that
// differ from a known name in case only. What has the syntax of JSON is what encoding/json takes, and a
// struct that is filled without encoding/json gets what it gets otherwise, with the same error.
func FuzzUnmarshal(f *testing.F) {
	for _, seed := range []string{
		`{"name":"a","redirect_uris":["b"],"count":1,"raw":{"A":1}}`,
		`{"NAME":"a","keys":[{"kty":"1","KTY":"2"}],"by_name":{"A":{"Kty":"x"}}}`,
		`{"name":"\ud83d\ude00","n\u0061me":1}`, `{"any":[1e400,-0,12345678901234567890]}`,
		`{"self":{"self":{"extra":"1","shared":null}}}`, `[]`, `null`, ` "x" `, `{"\u0000":1}`, `{"":{"":{}}}`,
		`{"name":null,"redirect_uris":["a",null,"\u00e9\"[],"],"raw": [1, {"a":null}] ,"count":true,"shared":"b"}`, `{"raw":null,"redirect_uris":null,"kty":"k"}`,
		`{"redirect_uris":[ ],"count":false}`, `{"redirect_uris":["a",1]}`, `{"redirect_uris":"a"}`, `{"count":"true"}`, `{"name":true,"name":1}`,
		``, `tru`, `truex`, `{"a":1,}`, `{"a"}`, `{,}`, `[1,]`, `[1 2]`, `01`, `1.`, `-`, `1e+`, `-0.5E-07`, `"\x"`, `"\u12g4"`, `"\ud800\u00`, `"\ud83d\u12"`, "\"\t\"", "[]\x00", `{}{}`, `"`, `"\`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		kept := bytes.Clone(data)
		valid := strictjson.Valid(data, strictjson.Options{})
		if syntax := utf8.Valid(data) && !json.Valid(data); syntax != errors.Is(valid, strictjson.ErrSyntax) && len(data) <= 64<<10 {
			t.Fatalf("Valid says %v, encoding/json that its syntax is wrong: %t", valid, syntax)
		}
		sameTexts(t, data)
		var got fuzzed
		err := strictjson.Unmarshal(data, &got, strictjson.Options{})
		if !bytes.Equal(kept, data) {
			t.Fatal("the caller's data was changed")
		}
		if valid != nil {
			if err == nil || !reflect.DeepEqual(got, fuzzed{}) {
				t.Fatalf("Valid says %v, Unmarshal %v", valid, err)
			}
			return
		}
		sameUntyped(t, data)
		if err == nil {
			sameTyped(t, data, got)
			sameWithoutInterface(t, data, got)
		}
	})
}

type fuzzed struct {
	base
	Name   string                    `json:"name"`
	URIs   []string                  `json:"redirect_uris"`
	Count  int64                     `json:"count"`
	Raw    json.RawMessage           `json:"raw"`
	Keys   []*key                    `json:"keys"`
	ByName map[string]map[string]key `json:"by_name"`
	Any    any                       `json:"any"`
	Self   *fuzzed                   `json:"self"`
}

// sameWithoutInterface decodes the members that are no interface without the one that is.
func sameWithoutInterface(t *testing.T, data []byte, want fuzzed) {
	t.Helper()
	var got struct {
		base
		Name   string                    `json:"name"`
		URIs   []string                  `json:"redirect_uris"`
		Count  int64                     `json:"count"`
		Raw    json.RawMessage           `json:"raw"`
		Keys   []*key                    `json:"keys"`
		ByName map[string]map[string]key `json:"by_name"`
	}
	err := strictjson.Unmarshal(data, &got, strictjson.Options{})
	if err != nil || !reflect.DeepEqual([]any{got.base, got.Name, got.URIs, got.Count, got.Raw, got.Keys, got.ByName},
		[]any{want.base, want.Name, want.URIs, want.Count, want.Raw, want.Keys, want.ByName}) {
		t.Fatalf("%v: got %+v, with an interface %+v", err, got, want)
	}
}

// texts is filled without encoding/json, and leftToJSON is not, because of a pointer.
type texts struct {
	base
	Name  string          `json:"name"`
	URIs  []string        `json:"redirect_uris"`
	Raw   json.RawMessage `json:"raw"`
	Flag  bool            `json:"count"`
	Other kind            `json:"kty"`
}

type kind string

type leftToJSON struct {
	texts
	Never *int `json:"never"`
}

func sameTexts(t *testing.T, data []byte) {
	t.Helper()
	var got texts
	var want leftToJSON
	err, wrong := strictjson.Unmarshal(data, &got, strictjson.Options{}), strictjson.Unmarshal(data, &want, strictjson.Options{})
	if fmt.Sprint(err) != fmt.Sprint(wrong) && want.Never == nil && !bytes.Contains(data, []byte("never")) {
		t.Fatalf("the error is %v, with encoding/json %v", err, wrong)
	}
	if refused := err != nil && !errors.Is(err, strictjson.ErrType); !reflect.DeepEqual(got, want.texts) && wrong == nil || refused && !reflect.DeepEqual(got, texts{}) {
		t.Fatalf("got %+v, with encoding/json %+v", got, want.texts)
	}
}

// TestFilledByJSON: fields behind a pointer and those with the option string are left to encoding/json.
func TestFilledByJSON(t *testing.T) {
	type Inner struct {
		Kty string `json:"kty"`
	}
	var pointed struct{ *Inner }
	var option struct {
		Flag bool `json:"flag,string"`
	}
	for document, v := range map[string]any{`{"kty":"EC"}`: &pointed, `{"flag":"true"}`: &option} {
		if err := strictjson.Unmarshal([]byte(document), v, strictjson.Options{}); err != nil {
			t.Errorf("%s: %v", document, err)
		}
	}
	if pointed.Inner == nil || pointed.Kty != "EC" || !option.Flag {
		t.Errorf("got %+v and %+v", pointed, option)
	}
	option.Flag = false
	if err := strictjson.Unmarshal([]byte(`{"flag":true}`), &option, strictjson.Options{}); err == nil {
		t.Error("a flag was taken that is no string")
	}
}

func sameUntyped(t *testing.T, data []byte) {
	t.Helper()
	var got, want any
	if err := strictjson.Unmarshal(data, &got, strictjson.Options{}); err != nil {
		t.Fatal(err)
	}
	reference(t, data, &want)
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("got %#v, encoding/json %#v", got, want)
	}
}

func sameTyped(t *testing.T, data []byte, got fuzzed) {
	t.Helper()
	var tree any
	reference(t, data, &tree)
	if folds(tree) {
		return
	}
	var want fuzzed
	reference(t, data, &want)
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("got %+v, encoding/json %+v", got, want)
	}
}

// folds reports whether v has a member name anywhere that encoding/json would match inexactly.
func folds(v any) bool {
	known := []string{"shared", "name", "redirect_uris", "count", "raw", "keys", "by_name", "any", "self", "kty"}
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			if folds(e) {
				return true
			}
		}
	case map[string]any:
		for name, e := range v {
			for _, k := range known {
				if name != k && strings.EqualFold(name, k) {
					return true
				}
			}
			if folds(e) {
				return true
			}
		}
	}
	return false
}

func reference(t *testing.T, data []byte, v any) {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	if err := decoder.Decode(v); err != nil {
		t.Fatalf("encoding/json refuses what is accepted: %v", err)
	}
}

func BenchmarkUnmarshal(b *testing.B) {
	data := []byte(`{"client_name":"Notes","redirect_uris":["http://127.0.0.1:33418/","https://example.com/cb"],` +
		`"name":"x","count":12,"keys":[{"kty":"EC"}],"grant_types":["authorization_code","refresh_token"],"any":{"a":[1,2]}}`)
	b.ReportAllocs()
	for b.Loop() {
		var d document
		if err := strictjson.Unmarshal(data, &d, strictjson.Options{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkUnmarshalTexts(b *testing.B) {
	data := []byte(`{"client_name":"A client","redirect_uris":["http://127.0.0.1:33418/callback"],"token_endpoint_auth_method":"none",` +
		`"grant_types":["authorization_code","refresh_token"],"response_types":["code"],"unknown":{"a":[1,2]}}`)
	b.ReportAllocs()
	for b.Loop() {
		var d metadata
		if err := strictjson.Unmarshal(data, &d, strictjson.Options{}); err != nil {
			b.Fatal(err)
		}
	}
}

type metadata struct {
	Name   string   `json:"client_name"`
	URIs   []string `json:"redirect_uris"`
	Method string   `json:"token_endpoint_auth_method"`
	Grants []string `json:"grant_types"`
	Types  []string `json:"response_types"`
	Bound  bool     `json:"bound"`
}
