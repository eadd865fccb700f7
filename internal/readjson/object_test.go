package readjson_test

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"gatehouse.example/internal/readjson"
)

// inner is within outer.
type inner struct {
	Text string   `json:"text,omitempty"`
	List []string `json:"list,omitempty"`
}

func (i *inner) read(text string) (rest string, ok bool) {
	o := readjson.Begin(text)
	o.Text("text", &i.Text)
	o.List("list", &i.List)
	return o.End()
}

// outer has a member of every type.
type outer struct {
	First  string    `json:"first,omitempty"`
	List   []string  `json:"list"`
	Bytes  []byte    `json:"bytes"`
	Int    int       `json:"int,omitempty"`
	Long   int64     `json:"long"`
	Short  uint32    `json:"short,omitempty"`
	Flag   bool      `json:"flag,omitempty"`
	At     time.Time `json:"at"`
	Any    any       `json:"any,omitempty"`
	Inner  inner     `json:"inner"`
	Inners []inner   `json:"inners"`
}

func (o *outer) read(text string) (ok bool) {
	r := readjson.Begin(text)
	r.Text("first", &o.First)
	r.List("list", &o.List)
	r.Bytes("bytes", &o.Bytes)
	readjson.Number(&r, "int", &o.Int)
	readjson.Number(&r, "long", &o.Long)
	readjson.Number(&r, "short", &o.Short)
	r.Flag("flag", &o.Flag)
	r.Time("at", &o.At)
	r.Any("any", &o.Any)
	r.Value("inner", o.Inner.read)
	readjson.Values(&r, "inners", &o.Inners, (*inner).read)
	return r.Whole()
}

// full has a value in every member.
func full() outer {
	some := inner{Text: "<a> \u2028 é \"", List: []string{"", "b", `\`}}
	return outer{
		First: "a&b", List: []string{"x"}, Bytes: []byte{0, 255, 7}, Int: -7, Long: math.MinInt64, Short: math.MaxUint32, Flag: true,
		At: time.Date(2026, 3, 4, 5, 6, 7, 89, time.UTC), Any: map[string]any{"z": []any{"]", 1.5, nil}}, Inner: some, Inners: []inner{{}, some},
	}
}

// same compares what is read with what encoding/json reads, and reports whether it was read.
func same(t *testing.T, text string) bool {
	t.Helper()
	var got, want outer
	if !got.read(text) {
		return false
	}
	if err := json.Unmarshal([]byte(text), &want); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%s: %+v, want %+v, %v", text, got, want, err)
	}
	return true
}

func written(t testing.TB, o outer) string {
	t.Helper()
	body, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// TestObject: what encoding/json writes is read as encoding/json reads it, whichever members it has, and
// nothing after it is lost.
func TestObject(t *testing.T) {
	offset, long := full(), full()
	offset.At = offset.At.In(time.FixedZone("", -3600))
	long.List = strings.Split(strings.Repeat("a ", 20), " ")
	for _, o := range []outer{
		{}, full(), offset, long, {First: "x"}, {List: []string{}, Bytes: []byte{}, Inners: []inner{}}, {Int: math.MinInt, Long: math.MaxInt64}, {Any: "a,b]}"}, {Any: 17.0}, {Any: []any{}},
		{Any: map[string]any{"": `"{\`}}, {Inners: make([]inner, 9)},
	} {
		if text := written(t, o); !same(t, text) {
			t.Errorf("another form: %s", text)
		}
	}
	for _, text := range []string{`{}`, `{"list":null,"bytes":null,"inners":null}`, `{"inner":{}}`, `{"any":null}`, `{"any":false}`, "{\"first\":\"\xc3(\"}", `{"first":"\ud800"}`, `{"first":"\u0041\/"}`} {
		if !same(t, text) {
			t.Errorf("another form: %s", text)
		}
	}
	var i inner
	if rest, ok := i.read(`{"text":"a"}, and`); rest != ", and" || !ok || i.Text != "a" {
		t.Errorf("%q, %t, %+v", rest, ok, i)
	}
}

// TestOtherForms: whatever is not in the form is not read, whether encoding/json reads it or not.
func TestOtherForms(t *testing.T) {
	for _, text := range []string{
		``, ` `, `{`, `[]`, `null`, `{"first"`, `{"first":`, `{"first":"`, `{"first":"a`, `{"first":"a"`, `{"first":"a\"}`, `{"first":"a",}`, `{,"first":"a"}`,
		`{"first":"a"}}`, `{"first":"a"} `, `{ "first":"a"}`, `{"first" :"a"}`, `{"first": "a"}`, `{"first":"a" }`, `{"First":"a"}`, `{"other":"a"}`,
		`{"list":[],"first":"a"}`, `{"first":"a","first":"b"}`, `{"first":null}`, `{"first":1}`, "{\"first\":\"\n\"}", `{"first":"\x"}`, `{"first":"a" "list":[]}`,
		`{"list":]}`, `{"list":[}`, `{"list":["a"}`, `{"list":["a",]}`, `{"list":[,]}`, `{"list":["a""b"]}`, `{"list":["a";"b"]}`, `{"list":["\x"]}`, `{"list":{"a"]}`, `["list":[]}`, `{"list":["a", "b"]}`, `{"list":[ ]}`, `{"list":[null]}`, `{"list":"a"}`,
		`{"bytes":"A"}`, `{"bytes":"AA=\u003d"}`, `{"bytes":"AA==AA=="}`, `{"bytes":[1]}`,
		`{"int":}`, `{"int":+1}`, `{"int":-0}`, `{"int":01}`, `{"int":1.0}`, `{"int":1e2}`, `{"int":9223372036854775808}`, `{"int":null}`, `{"int":"1"}`, `{"int":1`,
		`{"int":-9223372036854775809}`, `{"int":--1}`, `{"int":1_0}`, `{"int":00}`, `{"short":-1}`, `{"short":-4294967295}`, `{"short":4294967296}`,
		`{"flag":false}`, `{"flag":null}`, `{"flag":truer}`,
		`{"at":"2026-03-04T05:06:07"}`, `{"at":"2026-02-30T05:06:07Z"}`,
		`{"at":"2026-03-04T05:06:60Z"}`, `{"at":"Z"}`, `{"at":""}`, `{"at":null}`, `{"at":"2026-03-04T05:06:07\u005a"}`,
		`{"any":}`, `{"any":tru}`, `{"any":{]}}`, `{"any":{"a":1}`, `{"any":"a}`, `{"any":{"a}`, `{"any": {"a":1}}`,
		`{"inner":[]}`, `{"inner":{"list":[],"text":"a"}}`, `{"inner":{}`, `{"inners":[{},]}`, `{"inners":[{} ]}`, `{"inners":{}}`, `{"inners":[{}`, `{"inners":[null]}`,
		`{"any":` + strings.Repeat("[", 65) + strings.Repeat("]", 65) + `}`,
	} {
		if same(t, text) {
			t.Errorf("it was read: %s", text)
		}
	}
}

// TestLaxTimes: times that RFC 3339 does not allow are read if encoding/json reads them, which a later
// release of Go may not do (https://go.dev/issue/54580).
func TestLaxTimes(t *testing.T) {
	for _, at := range []string{"2026-03-04T5:06:07Z", "2026-03-04T05:06:07,5Z", "2026-03-04T05:06:07+24:00", "2026-03-04T05:06:07+00:60"} {
		text := `{"at":"` + at + `"}`
		if err := json.Unmarshal([]byte(text), &outer{}); same(t, text) != (err == nil) {
			t.Errorf("%s: %v with encoding/json", at, err)
		}
	}
}

// FuzzObject: what is read, encoding/json reads as the same, and what encoding/json writes is read.
func FuzzObject(f *testing.F) {
	text := written(f, full())
	f.Add(text, 0, "", 0)
	for _, at := range []string{`"a\u0026b`, `-7`, `true`, `2026`, `Z"`, `["`, `AP8H`, `{"z"`, `}`, `,"inner"`} {
		for _, insert := range []string{`\u0041`, `\ud800`, "\xff", "0", ".5", ",", "null", "+01:00", " ", `"`, "=", "\n", "{}", "[]", `\`} {
			f.Add(text, strings.Index(text, at), insert, 0)
			f.Add(text, strings.Index(text, at), insert, len(at))
		}
	}
	f.Fuzz(func(t *testing.T, text string, at int, insert string, remove int) {
		if at < 0 || at > len(text) || remove < 0 || remove > len(text)-at {
			return
		}
		changed := text[:at] + insert + text[at+remove:]
		same(t, changed)
		var o outer
		if json.Unmarshal([]byte(changed), &o) == nil && strings.Count(changed, "[")+strings.Count(changed, "{") < 64 && !same(t, written(t, o)) {
			t.Errorf("another form: %s", written(t, o))
		}
	})
}

// TestAllocations: a string is a part of the text, so an object costs what its lists and bytes take.
func TestAllocations(t *testing.T) {
	o := full()
	o.First, o.Any, o.Inner, o.Inners = "a", nil, inner{Text: "b"}, nil
	text := strings.Replace(written(t, o), `"inners":null`, `"inners":[]`, 1)
	if n := testing.AllocsPerRun(10, func() {
		var o outer
		if !o.read(text) {
			t.Error("another form")
		}
	}); n > 3 {
		t.Errorf("%v allocations, for a list, bytes and an object", n)
	}
}
