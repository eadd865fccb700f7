package middleware

import (
	"encoding/base64"
	"errors"
	"net/http"
	"strings"

	"gatehouse.example/message"
)

// headersFor holds the headers that repeat a message against it (MCP Streamable HTTP,
// revision 2026-07-28): whoever decides by one and whoever decides by the other must not
// be told different things. A header that is not there says nothing.
func headersFor(r *http.Request, got received) error {
	if !agrees(r.Header["Mcp-Method"], got.Method) {
		return fault(got.id, message.CodeHeaderMismatch, errors.New("the header Mcp-Method does not say what the message says"))
	}
	if got.kind != nameless && !agrees(r.Header["Mcp-Name"], got.Name) {
		return fault(got.id, message.CodeHeaderMismatch, errors.New("the header Mcp-Name does not say what the message says"))
	}
	return nil
}

func agrees(values []string, want string) bool {
	return len(values) == 0 || (len(values) == 1 && says(strings.Trim(values[0], " \t"), want))
}

// says reports whether the value of a header stands for a text: as it is, or encoded for
// its characters.
func says(value, text string) bool {
	if value == text {
		return true
	}
	encoded, ok := strings.CutPrefix(value, "=?base64?")
	return ok && encoded == base64.StdEncoding.EncodeToString([]byte(text))+"?="
}
