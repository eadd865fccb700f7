package message_test

import (
	"encoding/json"
	"strings"
	"testing"

	"gatehouse.example/message"
)

func TestNewError(t *testing.T) {
	for code, ok := range map[message.Code]bool{
		-32700: true, -32600: true, -32601: true, -32602: true, -32603: true,
		-32020: true, -32021: true, -32022: true, -32002: true, -32042: true,
		-32768: false, -32701: false, -32604: false, -32099: false, -32050: false, -32023: false, -32019: false, -32001: false, -32000: false,
		-32769: true, -31999: true, 0: true, 1: true, -1: true, 403: true,
	} {
		e, err := message.NewError(code, "no", nil)
		if (err == nil) != ok || ok && (e.Code != code || e.Message != "no" || e.Data != nil) {
			t.Errorf("%d: %+v, %v", code, e, err)
		}
		if reserved := -32768 <= code && code <= -32000; code.Reserved() != reserved {
			t.Errorf("%d: reserved is %v", code, !reserved)
		}
	}
}

func TestNewErrorData(t *testing.T) {
	e, err := message.NewError(message.CodeUnsupportedProtocolVersion, "no", map[string]any{"supported": []string{"2026-07-28"}})
	if err != nil || string(e.Data) != `{"supported":["2026-07-28"]}` {
		t.Errorf("%s, %v", e.Data, err)
	}
	for what, data := range map[string]any{"function": func() {}, "duplicate": json.RawMessage(`{"a":1,"a":1}`)} {
		if _, err := message.NewError(1, "no", data); err == nil {
			t.Errorf("%s is data", what)
		}
	}
	if _, err := message.NewError(1, "\xff", nil); err == nil {
		t.Error("a message that is not UTF-8")
	}
}

func TestErrorInOneLine(t *testing.T) {
	e := message.Error{Code: 1, Message: "a\nb" + strings.Repeat("x", 9999)}
	if got := e.Error(); !strings.HasPrefix(got, `message: error 1: "a\nbxx`) || len(got) > 300 {
		t.Errorf("%.100s… has %d bytes", got, len(got))
	}
}
