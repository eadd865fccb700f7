package middleware

import (
	"encoding/base64"
	"errors"
	"net/http"
	"strings"

	"gatehouse.example/message"
)

// headersFor compares the headers that repeat parts of a message with the message (MCP
// Streamable HTTP, revision 2026-07-28): a program that decides by the headers and one that
// decides by the message must not come to different results. A missing header is accepted.
func headersFor(r *http.Request, got received) error {
	if !agrees(r.Header["Mcp-Method"], got.Method) {
		return fault(got.id, message.CodeHeaderMismatch, errors.New("the header Mcp-Method does not match the message"))
	}
	if got.kind != nameless && !agrees(r.Header["Mcp-Name"], got.Name) {
		return fault(got.id, message.CodeHeaderMismatch, errors.New("the header Mcp-Name does not match the message"))
	}
	return nil
}

func agrees(values []string, want string) bool {
	return len(values) == 0 || (len(values) == 1 && encodes(strings.Trim(values[0], " \t"), want))
}

// encodes reports whether the value of a header stands for a text: as it is, or in base64.
func encodes(value, text string) bool {
	if value == text {
		return true
	}
	encoded, ok := strings.CutPrefix(value, "=?base64?")
	return ok && encoded == base64.StdEncoding.EncodeToString([]byte(text))+"?="
}
