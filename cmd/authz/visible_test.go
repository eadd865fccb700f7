package main

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// hostile are texts that a terminal would execute, or that look like other output.
var hostile = []string{
	"\x1b[2J\x1b]0;title\a", "back\b\b\b\bgone", "two\nlines\r", "tab\tstop", "\x7f", "\u009b31m",
	"left \u202etfel\u202c", "\u2066isolated\u2069", "\u200b\u200e\ufeff", "\u2028\u2029", "\U000e0041 tag", "not \xff\xfe UTF-8",
}

// obeyed reports whether a terminal would do anything but show a text in its lines.
func obeyed(text string) bool {
	return !utf8.ValidString(text) || strings.ContainsFunc(text, func(c rune) bool { return c != '\n' && !unicode.IsPrint(c) })
}

func TestWordOf(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"", "-"},
		{"notes:read", "notes:read"},
		{"https://notes.example.com/mcp", "https://notes.example.com/mcp"},
		{"été", "été"},
		{"two words", `"two words"`},
		{`a"quote`, `"a\"quote"`},
		{"\x1b[31m", `"\x1b[31m"`},
		{"\u202e", `"\u202e"`},
		{"\xff", `"\xff"`},
	} {
		if got := wordOf(tt.text); got != tt.want {
			t.Errorf("%q: %s, want %s", tt.text, got, tt.want)
		}
	}
	if got := wordsOf([]string{"a", "b c"}); got != `a "b c"` {
		t.Errorf("several: %s", got)
	}
	if got := quoted(strings.Repeat("é", 100)); got != `"`+strings.Repeat("é", 59)+`…"` {
		t.Errorf("a long name: %s", got)
	}
	for _, text := range hostile {
		if shown := wordOf(text) + quoted(text); obeyed(shown) || strings.Contains(shown, "\n") {
			t.Errorf("%q is shown as %s and %s", text, wordOf(text), quoted(text))
		}
	}
}

// An array has the same form, whether it is written at once or element by element.
func TestJSONArray(t *testing.T) {
	type element struct {
		Text string   `json:"text"`
		List []string `json:"list"`
	}
	for _, elements := range [][]element{
		{},
		{{"one", []string{}}},
		{{"one", []string{"a", "b"}}, {"two", nil}, {"three", []string{"c"}}},
	} {
		var want, got bytes.Buffer
		if err := (&program{stdout: &want}).printJSON(elements); err != nil {
			t.Fatal(err)
		}
		array := jsonArray{w: &got}
		for _, e := range elements {
			if err := array.add(e); err != nil {
				t.Fatal(err)
			}
		}
		if len(elements) > 0 && json.Valid(got.Bytes()) {
			t.Errorf("before it is closed, %s is complete", got.String())
		}
		if err := array.close(); err != nil || got.String() != want.String() {
			t.Errorf("%v: %s, want %s", err, got.String(), want.String())
		}
	}
}

func TestJSONArrayIsInert(t *testing.T) {
	var got bytes.Buffer
	array := jsonArray{w: &got}
	if err := array.add(hostile); err != nil {
		t.Fatal(err)
	}
	if err := array.close(); err != nil {
		t.Fatal(err)
	}
	if obeyed(got.String()) {
		t.Errorf("%q", got.String())
	}
	var back [][]string
	if err := json.Unmarshal(got.Bytes(), &back); err != nil {
		t.Fatal(err)
	}
	last := len(hostile) - 1 // JSON has no bytes that are not UTF-8
	if !reflect.DeepEqual(back[0][:last], hostile[:last]) {
		t.Errorf("%q is read back as %q", hostile, back)
	}
}
