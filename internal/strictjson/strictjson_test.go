package strictjson_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"gatehouse.example/internal/strictjson"
)

type key struct {
	Kty string `json:"kty"`
}

type base struct {
	Shared string `json:"shared"`
	Hidden string `json:"name"`
}

// Optional is embedded by pointer, for which encoding/json wants an exported name.
type Optional struct {
	Extra *string `json:"extra"`
}

// level is a TextUnmarshaler.
type level int

func (l *level) UnmarshalText(text []byte) error {
	if string(text) != "high" {
		return errors.New("unknown level")
	}
	*l = 9
	return nil
}

type document struct {
	base
	*Optional
	Name     string                     `json:"name"`
	URIs     []string                   `json:"redirect_uris"`
	Count    int64                      `json:"count"`
	Small    uint8                      `json:"small"`
	Ratio    float64                    `json:"ratio"`
	On       bool                       `json:"on"`
	Pointer  *string                    `json:"pointer"`
	Raw      json.RawMessage            `json:"raw"`
	Keys     []key                      `json:"keys"`
	ByName   map[string]key             `json:"by_name"`
	Nested   map[string]map[string]*key `json:"nested"`
	Any      any                        `json:"any"`
	When     time.Time                  `json:"when"`
	Level    level                      `json:"level"`
	Pair     [2]key                     `json:"pair"`
	Bytes    []byte                     `json:"bytes"`
	Quoted   int                        `json:"quoted,string"`
	Untagged string
	Skipped  string    `json:"-"`
	Self     *document `json:"self"`
}

func ptr(s string) *string { return &s }

func TestUnmarshalFillsEveryKindOfField(t *testing.T) {
	tests := []struct {
		name, in string
		want     document
	}{
		{"string", `{"name":"a"}`, document{Name: "a"}},
		{"escaped member name", `{"n\u0061me":"a"}`, document{Name: "a"}},
		{"embedded", `{"shared":"a"}`, document{base: base{Shared: "a"}}},
		{"embedded pointer", `{"extra":"a"}`, document{Optional: &Optional{Extra: ptr("a")}}},
		{"shallow field hides the embedded one", `{"name":"b"}`, document{Name: "b"}},
		{"slice", `{"redirect_uris":["a","b"]}`, document{URIs: []string{"a", "b"}}},
		{"exact integer", `{"count":9007199254740993}`, document{Count: 9007199254740993}},
		{"float and bool", `{"ratio":1.5,"on":true}`, document{Ratio: 1.5, On: true}},
		{"pointer", `{"pointer":"a"}`, document{Pointer: ptr("a")}},
		{"null pointer", `{"pointer":null}`, document{}},
		{"raw", `{"raw": {"A":1,"a":[ 2 ]} }`, document{Raw: json.RawMessage(`{"A":1,"a":[ 2 ]}`)}},
		{"slice of structs", `{"keys":[{"kty":"EC"},{"KTY":"no"}]}`, document{Keys: []key{{"EC"}, {}}}},
		{"map keeps the case of names", `{"by_name":{"A":{"kty":"1","Kty":"2"},"a":{"kty":"3"}}}`, document{ByName: map[string]key{"A": {"1"}, "a": {"3"}}}},
		{"map of maps of pointers", `{"nested":{"a":{"b":{"KTY":"x","kty":"1"}}}}`, document{Nested: map[string]map[string]*key{"a": {"b": {"1"}}}}},
		{"number in an interface", `{"any":{"N":12345678901234567890}}`, document{Any: map[string]any{"N": json.Number("12345678901234567890")}}},
		{"time", `{"when":"2026-01-02T03:04:05Z"}`, document{When: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}},
		{"text", `{"level":"high"}`, document{Level: 9}},
		{"array", `{"pair":[{"Kty":"x","kty":"1"},{"kty":"2"}]}`, document{Pair: [2]key{{"1"}, {"2"}}}},
		{"bytes", `{"bytes":"aGk="}`, document{Bytes: []byte("hi")}},
		{"string option", `{"quoted":"7"}`, document{Quoted: 7}},
		{"field without a tag", `{"Untagged":"a"}`, document{Untagged: "a"}},
		{"recursive", `{"self":{"Name":"no","name":"a"}}`, document{Self: &document{Name: "a"}}},
		{"surrogate pair", `{"name":"\ud83d\ude00 \uFFFD"}`, document{Name: "😀 \uFFFD"}},
		{"white space around", " \t\r\n{ \"name\" : \"a\" , \"on\" : true } \n", document{Name: "a", On: true}},

		{"unknown members", `{"x":1,"y":{"z":[null]},"":0}`, document{}},
		{"upper case", `{"NAME":"x"}`, document{}},
		{"upper case after", `{"name":"a","NAME":"x"}`, document{Name: "a"}},
		{"upper case before", `{"REDIRECT_URIS":["x"],"redirect_uris":["a"]}`, document{URIs: []string{"a"}}},
		{"escaped upper case", `{"\u004eAME":"x"}`, document{}},
		{"Kelvin sign", `{"\u212aeys":[{"kty":"x"}]}`, document{}},
		{"long s", `{"redirect_uriſ":["x"]}`, document{}},
		{"lower case of a field without a tag", `{"untagged":"x"}`, document{}},
		{"skipped field", `{"Skipped":"x","-":"x"}`, document{}},
		{"hidden by its tag", `{"Name":"x","Hidden":"x","URIs":["x"]}`, document{}},
		{"embedded type by its own name", `{"base":{"shared":"x"}}`, document{}},
		{"null document", `null`, document{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got document
			if err := strictjson.Unmarshal([]byte(tt.in), &got, strictjson.Options{}); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got  %+v\nwant %+v", got, tt.want)
			}
			if err := strictjson.Valid([]byte(tt.in), strictjson.Options{}); err != nil {
				t.Errorf("Valid: %v", err)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	many := func(n int, last string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "%q:0,", fmt.Sprint("m", i))
		}
		return "{" + b.String() + last + "}"
	}
	tests := []struct {
		name, in string
		want     error
		path     string
	}{
		{"empty", ``, strictjson.ErrSyntax, ""},
		{"white space", " \n", strictjson.ErrSyntax, ""},
		{"control characters for hex digits", "\"\\u\x10\x11\x12\x13\"", strictjson.ErrSyntax, ""},
		{"hex digits that end", `"\u123`, strictjson.ErrSyntax, ""},
		{"cut off", `{"name":"a"`, strictjson.ErrSyntax, ""},
		{"two values", `{}{}`, strictjson.ErrSyntax, ""},
		{"trailing text", `{} x`, strictjson.ErrSyntax, ""},
		{"trailing NUL", "{}\x00", strictjson.ErrSyntax, ""},
		{"trailing comma", `{"name":"a",}`, strictjson.ErrSyntax, ""},
		{"single quotes", `{'name':'a'}`, strictjson.ErrSyntax, ""},
		{"comment", `{/**/}`, strictjson.ErrSyntax, ""},
		{"byte order mark", "\xef\xbb\xbf{}", strictjson.ErrSyntax, ""},
		{"number with leading zero", `{"count":01}`, strictjson.ErrSyntax, ""},
		{"NaN", `{"ratio":NaN}`, strictjson.ErrSyntax, ""},
		{"raw control character", "{\"name\":\"a\x01\"}", strictjson.ErrSyntax, ""},
		{"unknown escape", `{"name":"\x41"}`, strictjson.ErrSyntax, ""},

		{"invalid UTF-8", "{\"name\":\"\xff\"}", strictjson.ErrText, ""},
		{"overlong UTF-8", "{\"name\":\"\xc0\x80\"}", strictjson.ErrText, ""},
		{"UTF-8 surrogate", "{\"name\":\"\xed\xa0\x80\"}", strictjson.ErrText, ""},
		{"lone high surrogate", `{"name":"\ud83d"}`, strictjson.ErrText, "name"},
		{"lone low surrogate", `{"redirect_uris":["a","\ude00"]}`, strictjson.ErrText, "redirect_uris[1]"},
		{"high and text", `{"name":"\ud83dx"}`, strictjson.ErrText, "name"},
		{"high and escape", `{"name":"\ud83d\n"}`, strictjson.ErrText, "name"},
		{"two high", `{"name":"\ud83d\ud83d"}`, strictjson.ErrText, "name"},
		{"reversed pair", `{"name":"\ude00\ud83d"}`, strictjson.ErrText, "name"},
		{"lone surrogate in a member name", `{"\ud800":1}`, strictjson.ErrText, ""},
		{"lone surrogate in an unknown member", `{"x":{"y":"\ud800"}}`, strictjson.ErrText, "x.y"},
		{"NUL in a member name", `{"name\u0000":1}`, strictjson.ErrText, `"name\x00"`},
		{"NUL in a nested name", `{"any":[{"\u0000":1}]}`, strictjson.ErrText, `any[0]."\x00"`},

		{"duplicate", `{"name":"a","name":"a"}`, strictjson.ErrDuplicate, "name"},
		{"escaped duplicate", `{"name":"a","n\u0061me":"b"}`, strictjson.ErrDuplicate, "name"},
		{"unknown duplicate", `{"x":1,"on":true,"x":1}`, strictjson.ErrDuplicate, "x"},
		{"empty duplicate", `{"":1,"":1}`, strictjson.ErrDuplicate, `""`},
		{"duplicate in a raw value", `{"raw":{"keys":[{"kty":1,"kty":2}]}}`, strictjson.ErrDuplicate, "raw.keys[0].kty"},
		{"duplicate in a map", `{"by_name":{"a":{},"a":{}}}`, strictjson.ErrDuplicate, "by_name.a"},
		{"duplicate in an unknown member", `{"x":{"y":[0,{"z":1,"z":2}]}}`, strictjson.ErrDuplicate, "x.y[1].z"},
		{"duplicate of an upper-case member", `{"NAME":1,"NAME":2}`, strictjson.ErrDuplicate, "NAME"},
		{"duplicate after many", many(40, `"m3":1`), strictjson.ErrDuplicate, "m3"},
		{"duplicate of the last of many", many(40, `"m39":1`), strictjson.ErrDuplicate, "m39"},
		{"duplicate at the edge of many", many(16, `"m0":1`), strictjson.ErrDuplicate, "m0"},
		{"duplicate after an object inside", `{"a":{"a":1},"a":1}`, strictjson.ErrDuplicate, "a"},
		{"long name is cut", `{"` + strings.Repeat("x", 100) + `":1,"` + strings.Repeat("x", 100) + `":1}`, strictjson.ErrDuplicate, `"` + strings.Repeat("x", 64) + `"`},
		{"odd name is quoted", `{"é\n":1,"é\n":1}`, strictjson.ErrDuplicate, `"\u00e9\n"`},

		{"too deep", strings.Repeat("[", 17) + strings.Repeat("]", 17), strictjson.ErrTooDeep, strings.Repeat("[0]", 16)},
		{"too deep in an unknown member", `{"x":` + strings.Repeat(`{"x":`, 16) + "1" + strings.Repeat("}", 17), strictjson.ErrTooDeep, strings.Repeat("x.", 15) + "x"},
		{"far too deep", strings.Repeat("[", 30000) + strings.Repeat("]", 30000), strictjson.ErrSyntax, ""},
		{"too large", `"` + strings.Repeat("x", 64<<10) + `"`, strictjson.ErrTooLarge, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got document
			err := strictjson.Unmarshal([]byte(tt.in), &got, strictjson.Options{})
			assertError(t, err, tt.want, tt.path)
			if !reflect.DeepEqual(got, document{}) {
				t.Errorf("a refused document was decoded: %+v", got)
			}
			assertError(t, strictjson.Valid([]byte(tt.in), strictjson.Options{}), tt.want, tt.path)
		})
	}
}

func assertError(t *testing.T, err, want error, path string) {
	t.Helper()
	var e *strictjson.Error
	if !errors.Is(err, want) || !errors.As(err, &e) {
		t.Fatalf("error %v, want %v", err, want)
	}
	if e.Path != path {
		t.Errorf("path %s, want %s", e.Path, path)
	}
	if msg := err.Error(); !strings.HasPrefix(msg, "strictjson: ") || strings.Contains(msg, "\n") {
		t.Errorf("message %q", msg)
	}
}

func TestWrongType(t *testing.T) {
	tests := []struct{ name, in, path, reason string }{
		{"string for array", `{"redirect_uris":"a"}`, "redirect_uris", "an array"},
		{"number for string", `{"name":1}`, "name", "a string"},
		{"number in a list of strings", `{"redirect_uris":["a",1]}`, "redirect_uris[1]", "a string"},
		{"in an embedded struct", `{"shared":1}`, "shared", "a string"},
		{"behind unknown members and white space", " { \"x\" : {\"y\":[1,2]} , \"keys\" : [ {} , { \"kty\" : [ ] } ] }", "keys[1].kty", "a string"},
		{"long literal", `{"on" : "aaaaaaaaaaaaaaaaaaaaa", "name":"x"}`, "on", "true or false"},
		{"object for array", `{"name":"x","redirect_uris":{"a":[]}}`, "redirect_uris", "an array"},
		{"object for a string in a map", `{"by_name":{"a":{"kty":{}}}}`, "by_name.a.kty", "a string"},
		{"array in an array of numbers", `{"redirect_uris":["a","b",["c"]],"on":true}`, "redirect_uris[2]", "a string"},
		{"string for number", `{"count":"1"}`, "count", "an integer in range"},
		{"fraction", `{"count":1.5}`, "count", "an integer in range"},
		{"exponent", `{"count":1e2}`, "count", "an integer in range"},
		{"too large", `{"count":9223372036854775808}`, "count", "an integer in range"},
		{"negative", `{"small":-1}`, "small", "a non-negative integer in range"},
		{"infinite", `{"ratio":1e999}`, "ratio", "a number in range"},
		{"string for bool", `{"on":"true"}`, "on", "true or false"},
		{"array for object", `{"self":[]}`, "self", "an object"},
		{"nested", `{"self":{"keys":[{"kty":1}]}}`, "self.keys[0].kty", "a string"},
		{"array document", `[]`, "", "an object"},
		{"string document", `"x"`, "", "an object"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := strictjson.Unmarshal([]byte(tt.in), new(document), strictjson.Options{})
			assertError(t, err, strictjson.ErrType, tt.path)
			if !strings.HasSuffix(err.Error(), tt.reason) {
				t.Errorf("message %q does not end in %q", err, tt.reason)
			}
		})
	}
}

func TestErrorsOfOthersPassThrough(t *testing.T) {
	for _, in := range []string{`{"level":"low"}`, `{"when":"yesterday"}`} {
		err := strictjson.Unmarshal([]byte(in), new(document), strictjson.Options{})
		var e *strictjson.Error
		if err == nil || errors.As(err, &e) {
			t.Errorf("%s: error %v", in, err)
		}
	}
	var invalid *json.InvalidUnmarshalError
	for _, v := range []any{nil, document{}, (*document)(nil)} {
		if err := strictjson.Unmarshal([]byte(`{}`), v, strictjson.Options{}); !errors.As(err, &invalid) {
			t.Errorf("into %T: error %v", v, err)
		}
	}
}

func TestOptions(t *testing.T) {
	tests := []struct {
		name, in string
		o        strictjson.Options
		want     error
	}{
		{"exactly the bytes", `"abcd"`, strictjson.Options{MaxBytes: 6}, nil},
		{"one byte more", `"abcde"`, strictjson.Options{MaxBytes: 6}, strictjson.ErrTooLarge},
		{"white space counts", `"abcd" `, strictjson.Options{MaxBytes: 6}, strictjson.ErrTooLarge},
		{"scalar at depth one", `1`, strictjson.Options{MaxDepth: 1}, nil},
		{"exactly the depth", `[[1],{"a":2}]`, strictjson.Options{MaxDepth: 2}, nil},
		{"one level more", `[[[]]]`, strictjson.Options{MaxDepth: 2}, strictjson.ErrTooDeep},
		{"deeper by option", strings.Repeat("[", 100) + strings.Repeat("]", 100), strictjson.Options{MaxDepth: 100}, nil},
		{"default depth", strings.Repeat("[", 16) + strings.Repeat("]", 16), strictjson.Options{}, nil},
		{"default bytes", strings.Repeat(" ", 64<<10-1) + "1", strictjson.Options{}, nil},
		{"negative is default", `[[1]]`, strictjson.Options{MaxBytes: -1, MaxDepth: -1}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := strictjson.Valid([]byte(tt.in), tt.o); !errors.Is(err, tt.want) {
				t.Errorf("error %v, want %v", err, tt.want)
			}
		})
	}
}

func TestDataIsNotChanged(t *testing.T) {
	in := []byte(`{"NAME":"x","name":"a"}`)
	before := string(in)
	var d document
	if err := strictjson.Unmarshal(in, &d, strictjson.Options{}); err != nil {
		t.Fatal(err)
	}
	if string(in) != before {
		t.Errorf("the caller's data became %s", in)
	}
}

// TestDataIsNotKept: what was decoded stays as it is when the caller writes over its data.
func TestDataIsNotKept(t *testing.T) {
	in := []byte(`{"raw":{"a":"b"},"text":"plain"}`)
	var d struct {
		Raw  json.RawMessage `json:"raw"`
		Text string          `json:"text"`
	}
	if err := strictjson.Unmarshal(in, &d, strictjson.Options{}); err != nil {
		t.Fatal(err)
	}
	for i := range in {
		in[i] = 'x'
	}
	if string(d.Raw) != `{"a":"b"}` || d.Text != "plain" {
		t.Errorf("it became %s, %s", d.Raw, d.Text)
	}
}

// TestErrorsChangeNothing: a document that is refused leaves what the caller had.
func TestErrorsChangeNothing(t *testing.T) {
	d := struct{ Name string }{"before"}
	if err := strictjson.Unmarshal([]byte(`{"Name":"after"`), &d, strictjson.Options{}); err == nil || d.Name != "before" {
		t.Errorf("%v, and the name is %q", err, d.Name)
	}
}

// The types below have unusual fields. For a document whose names are all exact,
// encoding/json is the reference.
type (
	left   struct{ Both, Left string }
	right  struct{ Both, Right string }
	tagged struct {
		Name string `json:"Both"`
	}
	ambiguous struct {
		left
		right
	}
	decidedTag struct {
		left
		right
		tagged
	}
	twice struct {
		left
		inner
	}
	inner struct{ left }
	loop  *loop
	odd   struct {
		//lint:ignore SA5008 odd on purpose
		Comma string `json:"a,b"`
		//lint:ignore SA5008 odd on purpose
		Dash string `json:"-,"`
		//lint:ignore SA5008 odd on purpose
		Quote  string `json:"it's"`
		Spaces string `json:" "`
		Chan   string `json:"~~"`
		//lint:ignore U1000 nothing may fill it
		hidden string
		Loop   loop
		Fold   string `json:"fold"`
		FOLD   string `json:"FOLD"`
		Optional
	}
)

func TestSameFieldsAsEncodingJSON(t *testing.T) {
	docs := []string{
		`{"Both":"1","Left":"2","Right":"3","Name":"4"}`,
		`{"a":"1","-":"2","Quote":"3"," ":"4","~~":"5","fold":"6","FOLD":"7","hidden":"8","Loop":null,"extra":"9"}`,
	}
	for _, doc := range docs {
		for _, v := range []any{&ambiguous{}, &decidedTag{}, &twice{}, &odd{}} {
			want := reflect.New(reflect.TypeOf(v).Elem()).Interface()
			if err := json.Unmarshal([]byte(doc), want); err != nil {
				t.Fatal(err)
			}
			if err := strictjson.Unmarshal([]byte(doc), v, strictjson.Options{}); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(v, want) {
				t.Errorf("%T of %s\ngot  %+v\nwant %+v", v, doc, v, want)
			}
		}
	}
	var got odd
	if err := strictjson.Unmarshal([]byte(`{"Fold":"x","it's":"x","b":"x","Hidden":"x"}`), &got, strictjson.Options{}); err != nil || got != (odd{}) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func ExampleUnmarshal() {
	var body struct {
		Name string `json:"client_name"`
	}
	err := strictjson.Unmarshal([]byte(`{"client_name":"Notes","CLIENT_NAME":"Bank"}`), &body, strictjson.Options{})
	fmt.Println(body.Name, err)

	err = strictjson.Unmarshal([]byte(`{"client_name":"Notes","client_name":"Bank"}`), &body, strictjson.Options{})
	fmt.Println(errors.Is(err, strictjson.ErrDuplicate), err)
	// Output:
	// Notes <nil>
	// true strictjson: client_name: duplicate member
}

// TestNumbersInInterfaces: wherever in a type an interface is, a number in it keeps all its digits.
func TestNumbersInInterfaces(t *testing.T) {
	type holder struct {
		Deep []map[string]*struct{ Any any }
		Self *nested
	}
	var v holder
	const digits = "12345678901234567890"
	if err := strictjson.Unmarshal([]byte(`{"Deep":[{"a":{"Any":`+digits+`}}],"Self":{"Self":{"Any":[`+digits+`]}}}`), &v, strictjson.Options{}); err != nil {
		t.Fatal(err)
	}
	if v.Deep[0]["a"].Any != json.Number(digits) || v.Self.Self.Any.([]any)[0] != json.Number(digits) {
		t.Errorf("%v, %v", v.Deep[0]["a"].Any, v.Self.Self.Any)
	}
}

type nested struct {
	Self *nested
	Any  any
}
