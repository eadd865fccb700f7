package message_test

import (
	"encoding/json"
	"strings"
	"testing"

	"gatehouse.example/message"
)

// TestIDIsExact: the response to a request has exactly its id.
func TestIDIsExact(t *testing.T) {
	for _, id := range []string{
		`0`, `1`, `-1`, `9007199254740993`, `-9007199254740993`, `9223372036854775807`, `-9223372036854775808`,
		`9223372036854775808`, `123456789012345678901234567890`, strings.Repeat("9", 256),
		`""`, `"1"`, `"null"`, `"a b"`, `"é😀"`, `"<&>"`, `"\"\\"`, `"` + strings.Repeat("x", 256) + `"`,
	} {
		m, err := message.Decode([]byte(`{"jsonrpc":"2.0","id":`+id+`,"method":"a"}`), message.Limits{})
		if err != nil {
			t.Errorf("%s: %v", id, err)
			continue
		}
		request := m.(message.Request)
		for _, answer := range []message.Message{request.Respond(object(t, `{}`)), request.Fail(message.Error{})} {
			data, err := message.Encode(answer)
			if err != nil || !strings.HasPrefix(string(data), `{"jsonrpc":"2.0","id":`+id+`,`) {
				t.Errorf("the answer to %s is %s, %v", id, data, err)
			}
		}
	}
}

// TestIDIsItsValue: two spellings of one id are equal.
func TestIDIsItsValue(t *testing.T) {
	ids := map[message.ID]bool{}
	for _, id := range []string{`1`, `"1"`, `"\u0031"`, `"a\/b"`, `"a/b"`, `"\u2028"`, "\"\u2028\"", `""`, `"😀"`, `"\ud83d\ude00"`} {
		var read message.ID
		if err := json.Unmarshal([]byte(id), &read); err != nil {
			t.Fatal(err)
		}
		ids[read] = true
	}
	if len(ids) != 6 {
		t.Errorf("%d ids, want 6: %v", len(ids), ids)
	}
}

func TestID(t *testing.T) {
	if n, ok := message.NumberID(-7).Int64(); n != -7 || !ok {
		t.Error("the number of a number")
	}
	if s, ok := text(t, "x").Text(); s != "x" || !ok {
		t.Error("the text of a text")
	}
	if _, ok := text(t, "7").Int64(); ok {
		t.Error("a string is no number")
	}
	if _, ok := message.NumberID(7).Text(); ok {
		t.Error("a number is no string")
	}
	var large message.ID
	if err := json.Unmarshal([]byte(`9223372036854775808`), &large); err != nil {
		t.Fatal(err)
	}
	if _, ok := large.Int64(); ok || large.String() != "9223372036854775808" {
		t.Error("a number that does not fit")
	}
	if got := text(t, "a\n\u202e").String(); got != `"a\n\u202e"` {
		t.Errorf("for people: %s", got)
	}
	for _, s := range []string{"\xff", strings.Repeat("x", 257)} {
		if id, err := message.StringID(s); err == nil || !id.IsZero() {
			t.Errorf("%q is an id", s)
		}
	}
}

func TestIDZero(t *testing.T) {
	var none message.ID
	if !none.IsZero() || none.String() != "none" || message.NumberID(0).IsZero() || text(t, "").IsZero() {
		t.Error("which id is none")
	}
	if data, err := json.Marshal(none); err == nil {
		t.Errorf("it is written as %s", data)
	}
	if err := json.Unmarshal([]byte(`null`), &none); err == nil {
		t.Error("null is an id")
	}
	if err := json.Unmarshal([]byte("\"\xff\""), &none); err == nil {
		t.Error("what is not UTF-8 is an id")
	}
	if err := none.UnmarshalJSON([]byte(`"a`)); err == nil {
		t.Error("half a string is an id")
	}
}
