package message_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"gatehouse.example/message"
)

func object(t testing.TB, text string) message.Object {
	t.Helper()
	o, err := message.NewObject(json.RawMessage(text))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func text(t testing.TB, s string) message.ID {
	t.Helper()
	id, err := message.StringID(s)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestDecode(t *testing.T) {
	one, abc := message.NumberID(1), text(t, "abc")
	params := object(t, `{"name":"add_note","arguments":{}}`)
	for name, tt := range map[string]struct {
		in   string
		want message.Message
	}{
		"request":                   {`{"jsonrpc":"2.0","id":1,"method":"ping"}`, message.Request{ID: one, Method: "ping"}},
		"request with params":       {`{"jsonrpc":"2.0","id":"abc","method":"tools/call","params":{"name":"add_note","arguments":{}}}`, message.Request{ID: abc, Method: "tools/call", Params: params}},
		"request in another order":  {`{"params":{},"method":"a","id":1,"jsonrpc":"2.0"}`, message.Request{ID: one, Method: "a", Params: object(t, `{}`)}},
		"white space around":        {" \r\n\t{ \"jsonrpc\" :\"2.0\" , \"id\"\n: 1 ,\"method\":\t\"ping\" } \n", message.Request{ID: one, Method: "ping"}},
		"escaped":                   {`{"json\u0072pc":"2\u002e0","id":"\u0061bc","m\u0065thod":"\u0070ing"}`, message.Request{ID: abc, Method: "ping"}},
		"params like a message":     {`{"jsonrpc":"2.0","id":1,"method":"a","params":{"id":null,"result":[1,"}"],"METHOD":"\"}"}}`, message.Request{ID: one, Method: "a", Params: object(t, `{"id":null,"result":[1,"}"],"METHOD":"\"}"}`)}},
		"notification":              {`{"jsonrpc":"2.0","method":"notifications/initialized"}`, message.Notification{Method: "notifications/initialized"}},
		"notification and params":   {`{"jsonrpc":"2.0","method":"a","params":{"name":"add_note","arguments":{}}}`, message.Notification{Method: "a", Params: params}},
		"result":                    {`{"jsonrpc":"2.0","id":1,"result":{}}`, message.ResultResponse{ID: one, Result: object(t, `{}`)}},
		"error":                     {`{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}`, message.ErrorResponse{ID: one, Error: message.Error{Code: message.CodeMethodNotFound, Message: "no"}}},
		"error with data":           {`{"jsonrpc":"2.0","id":"abc","error":{"code":7,"message":"","data":[ 1e400 ]}}`, message.ErrorResponse{ID: abc, Error: message.Error{Code: 7, Data: json.RawMessage(`[ 1e400 ]`)}}},
		"error with null data":      {`{"jsonrpc":"2.0","id":1,"error":{"code":7,"message":"","data":null}}`, message.ErrorResponse{ID: one, Error: message.Error{Code: 7, Data: json.RawMessage(`null`)}}},
		"error without id":          {`{"jsonrpc":"2.0","error":{"code":-32700,"message":"no"}}`, message.ErrorResponse{Unread: true, Error: message.Error{Code: message.CodeParseError, Message: "no"}}},
		"error with a foreign code": {`{"jsonrpc":"2.0","id":1,"error":{"code":-32050,"message":"no","more":1}}`, message.ErrorResponse{ID: one, Error: message.Error{Code: -32050, Message: "no"}}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := message.Decode([]byte(tt.in), message.Limits{})
			if err != nil || !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %+v, %v; want %+v", got, err, tt.want)
			}
		})
	}
}

// TestDecodeKeepsBytes: parameters keep their bytes, also if the caller reuses the buffer.
func TestDecodeKeepsBytes(t *testing.T) {
	const params = "{ \"a\" : [ 1.0, \"\\u0061\" ],\n\"b\":{}}"
	data := []byte(`{"jsonrpc":"2.0","id":1,"method":"a","params":` + params + `}`)
	m, err := message.Decode(data, message.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range data {
		data[i] = 'x'
	}
	if got := string(m.(message.Request).Params.Raw()); got != params {
		t.Errorf("got %s, want %s", got, params)
	}
}

// TestDecodeRefused has the response to each refused message: its code and id, "none" for a
// response without id, or no response.
func TestDecodeRefused(t *testing.T) {
	const parse, invalid = message.CodeParseError, message.CodeInvalidRequest
	const silent = "no answer"
	deep := strings.Repeat("[", 63) + strings.Repeat("]", 63)
	for _, tt := range []struct {
		name, in string
		code     message.Code
		answer   string
	}{
		{"empty", ``, parse, "none"},
		{"cut off", `{"jsonrpc":"2.0","id":1,"method":"a"`, parse, "none"},
		{"two messages", `{"jsonrpc":"2.0","id":1,"method":"a"}{"jsonrpc":"2.0","id":2,"method":"a"}`, parse, "none"},
		{"two lines", `{"jsonrpc":"2.0","id":1,"method":"a"}` + "\n" + `{"jsonrpc":"2.0","id":2,"method":"a"}`, parse, "none"},
		{"byte order mark", "\xef\xbb\xbf" + `{"jsonrpc":"2.0","id":1,"method":"a"}`, parse, "none"},
		{"not UTF-8", `{"jsonrpc":"2.0","id":1,"method":"` + "\xff" + `"}`, parse, "none"},
		{"UTF-16", "{\x00}\x00", parse, "none"},
		{"leading zero", `{"jsonrpc":"2.0","id":01,"method":"a"}`, parse, "none"},
		{"plus", `{"jsonrpc":"2.0","id":+1,"method":"a"}`, parse, "none"},
		{"NaN", `{"jsonrpc":"2.0","id":NaN,"method":"a"}`, parse, "none"},

		{"batch", `[{"jsonrpc":"2.0","id":1,"method":"a"}]`, invalid, "none"},
		{"empty batch", ` []`, invalid, "none"},
		{"null", `null`, invalid, "none"},
		{"string", `"{}"`, invalid, "none"},
		{"number", `1`, invalid, "none"},
		{"nothing", `{}`, invalid, "none"},
		{"too large", `{"jsonrpc":"2.0","id":1,"method":"` + strings.Repeat("a", 1<<20) + `"}`, invalid, "none"},

		{"no version", `{"id":1,"method":"a"}`, invalid, "1"},
		{"version 1.0", `{"jsonrpc":"1.0","id":1,"method":"a"}`, invalid, "1"},
		{"version as a number", `{"jsonrpc":2.0,"id":1,"method":"a"}`, invalid, "1"},
		{"version null", `{"jsonrpc":null,"id":1,"method":"a"}`, invalid, "1"},
		{"version and space", `{"jsonrpc":"2.0 ","id":"x","method":"a"}`, invalid, `"x"`},

		{"id null", `{"jsonrpc":"2.0","id":null,"method":"a"}`, invalid, "none"},
		{"id true", `{"jsonrpc":"2.0","id":true,"method":"a"}`, invalid, "none"},
		{"id object", `{"jsonrpc":"2.0","id":{},"method":"a"}`, invalid, "none"},
		{"id array", `{"jsonrpc":"2.0","id":[1],"method":"a"}`, invalid, "none"},
		{"id with a fraction", `{"jsonrpc":"2.0","id":1.5,"method":"a"}`, invalid, "none"},
		{"id with a zero fraction", `{"jsonrpc":"2.0","id":1.0,"method":"a"}`, invalid, "none"},
		{"id with an exponent", `{"jsonrpc":"2.0","id":1e3,"method":"a"}`, invalid, "none"},
		{"id minus zero", `{"jsonrpc":"2.0","id":-0,"method":"a"}`, invalid, "none"},
		{"id too long", `{"jsonrpc":"2.0","id":"` + strings.Repeat("a", 257) + `","method":"a"}`, invalid, "none"},
		{"id of too many digits", `{"jsonrpc":"2.0","id":` + strings.Repeat("1", 257) + `,"method":"a"}`, invalid, "none"},
		{"id twice", `{"jsonrpc":"2.0","id":1,"method":"a","id":2}`, invalid, "none"},
		{"id twice the same", `{"jsonrpc":"2.0","id":1,"method":"a","\u0069d":1}`, invalid, "none"},
		{"id a lone surrogate", `{"jsonrpc":"2.0","id":"\ud800","method":"a"}`, invalid, "none"},

		{"no method", `{"jsonrpc":"2.0","id":1}`, invalid, "1"},
		{"params alone", `{"jsonrpc":"2.0","id":1,"params":{}}`, invalid, "1"},
		{"method empty", `{"jsonrpc":"2.0","id":1,"method":""}`, invalid, "1"},
		{"method null", `{"jsonrpc":"2.0","id":1,"method":null}`, invalid, "1"},
		{"method a number", `{"jsonrpc":"2.0","id":1,"method":1}`, invalid, "1"},
		{"method in upper case", `{"jsonrpc":"2.0","id":1,"METHOD":"a"}`, invalid, "1"},
		{"method in two cases", `{"jsonrpc":"2.0","id":1,"method":"tools/list","Method":"tools/call"}`, invalid, "1"},
		{"method twice", `{"jsonrpc":"2.0","id":1,"method":"tools/list","method":"tools/call"}`, invalid, "1"},
		{"a lone surrogate in the method", `{"jsonrpc":"2.0","id":1,"method":"\ud800"}`, invalid, "1"},
		{"params an array", `{"jsonrpc":"2.0","id":1,"method":"a","params":[]}`, invalid, "1"},
		{"params null", `{"jsonrpc":"2.0","id":1,"method":"a","params":null}`, invalid, "1"},
		{"params a string", `{"jsonrpc":"2.0","id":1,"method":"a","params":"{}"}`, invalid, "1"},
		{"params in the long s", `{"jsonrpc":"2.0","id":1,"method":"a","paramſ":{}}`, invalid, "1"},
		{"an unknown member", `{"jsonrpc":"2.0","id":1,"method":"a","extra":0}`, invalid, "1"},
		{"an empty name", `{"jsonrpc":"2.0","id":1,"method":"a","":0}`, invalid, "1"},
		{"NUL in a name", `{"jsonrpc":"2.0","id":1,"method":"a","method\u0000":"b"}`, invalid, "1"},
		{"duplicate in params", `{"jsonrpc":"2.0","id":1,"method":"a","params":{"name":"x","n\u0061me":"y"}}`, invalid, "1"},
		{"duplicate far inside", `{"jsonrpc":"2.0","id":"x","method":"a","params":{"a":[{"b":{"c":1,"c":1}}]}}`, invalid, `"x"`},
		{"too deep", `{"jsonrpc":"2.0","method":"a","id":1,"params":{"a":` + deep + `}}`, invalid, "1"},

		{"request and result", `{"jsonrpc":"2.0","id":1,"method":"a","result":{}}`, invalid, "1"},
		{"request and error", `{"jsonrpc":"2.0","id":1,"method":"a","error":{"code":1,"message":""}}`, invalid, "1"},

		{"notification and result", `{"jsonrpc":"2.0","method":"a","result":{}}`, invalid, silent},
		{"notification with an array", `{"jsonrpc":"2.0","method":"a","params":[]}`, invalid, silent},
		{"notification of version 1.0", `{"jsonrpc":"1.0","method":"a"}`, invalid, silent},
		{"notification with an unknown member", `{"jsonrpc":"2.0","method":"a","ID":1}`, invalid, silent},
		{"notification with a duplicate", `{"jsonrpc":"2.0","method":"a","params":{"a":1,"a":1}}`, invalid, silent},
		{"notification that is too deep", `{"jsonrpc":"2.0","method":"a","params":{"a":` + deep + `}}`, invalid, silent},
		{"result and error", `{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}}`, invalid, silent},
		{"result and params", `{"jsonrpc":"2.0","id":1,"result":{},"params":{}}`, invalid, silent},
		{"result without id", `{"jsonrpc":"2.0","result":{}}`, invalid, silent},
		{"result with id null", `{"jsonrpc":"2.0","id":null,"result":{}}`, invalid, silent},
		{"result an array", `{"jsonrpc":"2.0","id":1,"result":[]}`, invalid, silent},
		{"result null", `{"jsonrpc":"2.0","id":1,"result":null}`, invalid, silent},
		{"result a string", `{"jsonrpc":"2.0","id":1,"result":""}`, invalid, silent},
		{"error with id null", `{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":""}}`, invalid, silent},
		{"error with a fraction for an id", `{"jsonrpc":"2.0","id":0.5,"error":{"code":1,"message":""}}`, invalid, silent},
		{"error null", `{"jsonrpc":"2.0","id":1,"error":null}`, invalid, silent},
		{"error a string", `{"jsonrpc":"2.0","id":1,"error":"no"}`, invalid, silent},
		{"error without code", `{"jsonrpc":"2.0","id":1,"error":{"message":""}}`, invalid, silent},
		{"error without message", `{"jsonrpc":"2.0","id":1,"error":{"code":1}}`, invalid, silent},
		{"error with message null", `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":null}}`, invalid, silent},
		{"error with a number for a message", `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":1}}`, invalid, silent},
		{"error with Code", `{"jsonrpc":"2.0","id":1,"error":{"Code":1,"message":""}}`, invalid, silent},
		{"code a string", `{"jsonrpc":"2.0","id":1,"error":{"code":"1","message":""}}`, invalid, silent},
		{"code with a fraction", `{"jsonrpc":"2.0","id":1,"error":{"code":1.5,"message":""}}`, invalid, silent},
		{"code with a zero fraction", `{"jsonrpc":"2.0","id":1,"error":{"code":1.0,"message":""}}`, invalid, silent},
		{"code with an exponent", `{"jsonrpc":"2.0","id":1,"error":{"code":1e2,"message":""}}`, invalid, silent},
		{"code out of range", `{"jsonrpc":"2.0","id":1,"error":{"code":9223372036854775808,"message":""}}`, invalid, silent},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, err := message.Decode([]byte(tt.in), message.Limits{})
			var refused *message.DecodeError
			if m != nil || !errors.As(err, &refused) || refused.Code != tt.code {
				t.Fatalf("got %v, %v; want the code %d", m, err, tt.code)
			}
			if got := answer(t, refused); got != tt.answer {
				t.Errorf("it is answered to %s, want %s", got, tt.answer)
			}
		})
	}
}

// answer returns the id of the response to a refused message, and checks the response.
func answer(t *testing.T, refused *message.DecodeError) string {
	t.Helper()
	response, ok := refused.Response()
	if !ok {
		return "no answer"
	}
	data, err := message.Encode(response)
	if err != nil {
		t.Fatal(err)
	}
	back, err := message.Decode(data, message.Limits{})
	if err != nil || !reflect.DeepEqual(back, response) || response.Error.Code != refused.Code {
		t.Errorf("%s decodes to %+v, %v", data, back, err)
	}
	if response.Unread != response.ID.IsZero() || strings.Contains(string(data), `"id"`) == response.Unread {
		t.Errorf("an answer without id and without saying so, or the other way round: %s", data)
	}
	if _, reason, _ := strings.Cut(response.Error.Message, ": "); strings.HasPrefix(reason, "strictjson: ") {
		t.Errorf("the answer says how this side is built: %s", response.Error.Message)
	}
	return response.ID.String()
}

func TestDecodeBatch(t *testing.T) {
	_, err := message.Decode([]byte(`[{"jsonrpc":"2.0","id":1,"method":"a"}]`), message.Limits{})
	if !errors.Is(err, message.ErrBatch) || !strings.Contains(err.Error(), "one message at a time") {
		t.Errorf("got %v", err)
	}
}

func TestLimits(t *testing.T) {
	const request = `{"jsonrpc":"2.0","id":1,"method":"a","params":{"a":[[]]}}`
	for name, tt := range map[string]struct {
		limits message.Limits
		ok     bool
	}{
		"none":            {message.Limits{}, true},
		"negative":        {message.Limits{MaxBytes: -1, MaxDepth: -1}, true},
		"exactly":         {message.Limits{MaxBytes: len(request), MaxDepth: 4}, true},
		"a byte too much": {message.Limits{MaxBytes: len(request) - 1}, false},
		"too deep":        {message.Limits{MaxDepth: 3}, false},
	} {
		if _, err := message.Decode([]byte(request), tt.limits); (err == nil) != tt.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	const begin = `{"jsonrpc":"2.0","id":1,"method":"a","params":{"a":`
	for name, params := range map[string]string{
		"62 arrays":    strings.Repeat("[", 62) + strings.Repeat("]", 62),
		"nearly 1 MiB": `"` + strings.Repeat("x", 1<<20-len(begin)-4) + `"`,
	} {
		if _, err := message.Decode([]byte(begin+params+"}}"), message.Limits{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
