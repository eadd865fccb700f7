package middleware

import (
	"net/http"

	"gatehouse.example/internal/headername"
)

// judgedHeaders are the headers by which the guard decides, or which it takes out.
var judgedHeaders = headername.NewSet(
	"authorization", "proxy-authorization", "origin", "host", "forwarded", "cookie",
	"accept", "connection", "transfer-encoding", "last-event-id", "x-request-id", "traceparent",
	"mcp-session-id", "mcp-method", "mcp-name", "mcp-protocol-version",
	"content-*", "x-forwarded-*",
)

// dropOtherSpellings removes headers that some servers take for one that the guard judges,
// although they have another name. To WSGI and CGI, "Mcp_Session_Id" is "Mcp-Session-Id"
// (RFC 3875 section 4.1.18), so whoever sends it would get past the judgement. Other names
// with such characters stay: some headers carry parameters of a tool by their name.
func dropOtherSpellings(header http.Header) {
	for name := range header {
		if !headername.Canonical(name) && judgedHeaders.Has(name) {
			delete(header, name)
		}
	}
}
