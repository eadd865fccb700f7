package message_test

import (
	"encoding/json"
	"strings"
	"testing"

	"gatehouse.example/message"
)

func TestEncode(t *testing.T) {
	one := message.NumberID(1)
	for want, m := range map[string]message.Message{
		`{"jsonrpc":"2.0","id":1,"method":"ping"}`:                             message.Request{ID: one, Method: "ping"},
		`{"jsonrpc":"2.0","id":1,"method":"a<b","params":{"a":1.0}}`:           message.Request{ID: one, Method: "a<b", Params: object(t, "{ \"a\" :\n1.0 }")},
		`{"jsonrpc":"2.0","method":"a"}`:                                       message.Notification{Method: "a"},
		`{"jsonrpc":"2.0","method":"a","params":{}}`:                           message.Notification{Method: "a", Params: object(t, `{}`)},
		`{"jsonrpc":"2.0","id":1,"result":{}}`:                                 message.ResultResponse{ID: one, Result: object(t, `{}`)},
		`{"jsonrpc":"2.0","id":1,"error":{"code":0,"message":""}}`:             message.ErrorResponse{ID: one},
		`{"jsonrpc":"2.0","error":{"code":-32700,"message":"no","data":null}}`: message.ErrorResponse{Unread: true, Error: message.Error{Code: message.CodeParseError, Message: "no", Data: json.RawMessage("null")}},
	} {
		if got, err := message.Encode(m); err != nil || string(got) != want {
			t.Errorf("got %s, %v; want %s", got, err, want)
		}
	}
}

// TestEncodeIsOneLine: a message is one line, so that transports can separate messages by lines.
func TestEncodeIsOneLine(t *testing.T) {
	in := "{\"jsonrpc\":\"2.0\",\n\"id\":\"\\n\",\n\"method\":\"a\\r\\n\",\"params\":{\n\"a\":\t[\r\n1] }}"
	m, err := message.Decode([]byte(in), message.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := message.Encode(m); err != nil || strings.ContainsAny(string(got), "\r\n\u2028\u2029") {
		t.Errorf("%q, %v", got, err)
	}
}

func TestEncodeRefused(t *testing.T) {
	one := message.NumberID(1)
	for what, m := range map[string]message.Message{
		"nothing":                       nil,
		"request zero":                  message.Request{},
		"request without id":            message.Request{Method: "a"},
		"request without method":        message.Request{ID: one},
		"request, not UTF-8":            message.Request{ID: one, Method: "\xff"},
		"notification zero":             message.Notification{},
		"result zero":                   message.ResultResponse{},
		"result without id":             message.ResultResponse{Result: object(t, `{}`)},
		"result without result":         message.ResultResponse{ID: one},
		"error zero":                    message.ErrorResponse{},
		"error without id":              message.ErrorResponse{Error: message.Error{Code: message.CodeInternalError}},
		"error unread with id":          message.ErrorResponse{ID: one, Unread: true},
		"error message not UTF-8":       message.ErrorResponse{ID: one, Error: message.Error{Message: "\xff"}},
		"error data not JSON":           message.ErrorResponse{ID: one, Error: message.Error{Data: json.RawMessage("x")}},
		"error data with a duplicate":   message.ErrorResponse{ID: one, Error: message.Error{Data: json.RawMessage(`{"a":1,"a":2}`)}},
		"error data with two values":    message.ErrorResponse{ID: one, Error: message.Error{Data: json.RawMessage(`1 2`)}},
		"answer to nothing":             message.Request{}.Respond(object(t, `{}`)),
		"answer to nothing, with error": message.Request{}.Fail(message.Error{}),
	} {
		if got, err := message.Encode(m); err == nil || got != nil || !strings.HasPrefix(err.Error(), "message: ") {
			t.Errorf("%s: %s, %v", what, got, err)
		}
	}
}

func TestNewObject(t *testing.T) {
	for what, tt := range map[string]struct {
		in   any
		want string
	}{
		"map":    {map[string]any{"a": "<"}, `{"a":"<"}`},
		"struct": {message.Icon{Src: "s"}, `{"src":"s"}`},
		"raw":    {json.RawMessage(` { "a" : 1 } `), `{"a":1}`},
		"object": {object(t, `{"a":1}`), `{"a":1}`},
	} {
		if got, err := message.NewObject(tt.in); err != nil || string(got.Raw()) != tt.want {
			t.Errorf("%s: %s, %v", what, got.Raw(), err)
		}
	}
	for what, in := range map[string]any{
		"nil": nil, "array": []int{}, "string": "{}", "no object": message.Object{}, "duplicate": json.RawMessage(`{"a":1,"a":1}`),
		"surrogate": json.RawMessage(`{"a":"\ud800"}`), "not JSON": json.RawMessage(`{`), "function": func() {}, "nil map": map[string]int(nil),
	} {
		if got, err := message.NewObject(in); err == nil || !got.IsZero() {
			t.Errorf("%s: %s", what, got.Raw())
		}
	}
}

func TestObject(t *testing.T) {
	o := object(t, `{"name":"a","Name\"":"b","other":{"name":"c"},"x":[{},"]"],"\u0079":null}`)
	for name, want := range map[string]string{
		"name": `"a"`, `Name"`: `"b"`, "other": `{"name":"c"}`, "x": `[{},"]"]`, "y": `null`, "none": ``,
	} {
		if got, err := o.Member(name); err != nil || string(got) != want {
			t.Errorf("%s: got %s, %v; want %s", name, got, err, want)
		}
	}
	var v struct {
		Name string `json:"name"`
		X    string `json:"X"`
	}
	if err := o.Decode(&v); err != nil || v.Name != "a" || v.X != "" {
		t.Errorf("%+v, %v", v, err)
	}
	if err := o.Decode(&[]int{}); err == nil {
		t.Error("an object is an array")
	}
	raw := o.Raw()
	raw[0] = 'x'
	if got, err := o.Member("name"); err != nil || string(got) != `"a"` {
		t.Errorf("an object was changed: %s, %v", got, err)
	}
}

func TestObjectZero(t *testing.T) {
	var none message.Object
	v := map[string]any{"a": 1}
	if err := none.Decode(&v); err != nil || len(v) != 1 {
		t.Errorf("%v, %v", v, err)
	}
	if got, err := none.Member("a"); got != nil || err != nil || none.Raw() != nil {
		t.Errorf("%s, %v", got, err)
	}
	if got, err := json.Marshal(none); err != nil || string(got) != "null" {
		t.Errorf("%s, %v", got, err)
	}
}

// TestObjectAmbiguous: Member refuses objects that case-insensitive parsers read differently, and those
// of which a copy in JavaScript inherits the member.
func TestObjectAmbiguous(t *testing.T) {
	for _, in := range []string{
		`{"name":"list_notes","NAME":"add_note"}`, `{"Name":"add_note","name":"list_notes"}`, `{"NAME":"add_note"}`, `{"n\u0041me":"add_note"}`,
		`{"__proto__":{"name":"add_note"}}`, `{"\u005f_proto__":{"name":"add_note"},"arguments":{}}`,
	} {
		if got, err := object(t, in).Member("name"); err == nil {
			t.Errorf("%s: %s", in, got)
		}
	}
	if _, err := object(t, `{"arguments":{},"argumentſ":{}}`).Member("arguments"); err == nil {
		t.Error("the long s is an s to some")
	}
	if got, err := object(t, `{"__proto__":{"name":"add_note"},"name":"list_notes"}`).Member("name"); err != nil || string(got) != `"list_notes"` {
		t.Errorf("what an object has itself is not inherited: %s, %v", got, err)
	}
}
