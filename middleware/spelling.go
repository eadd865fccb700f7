package middleware

import (
	"net/http"

	"gatehouse.example/internal/headername"
)

// judgedHeaders are the headers that the guard checks or removes.
var judgedHeaders = headername.NewSet(
	"authorization", "proxy-authorization", "dpop", "origin", "host", "forwarded", "cookie",
	"accept", "connection", "transfer-encoding", "last-event-id", "x-request-id", "traceparent",
	"mcp-session-id", "mcp-method", "mcp-name", "mcp-protocol-version",
	"content-*", "x-forwarded-*",
)

// dropOtherSpellings removes headers that some servers treat as one of judgedHeaders, although
// their name is another one. To WSGI and CGI, "Mcp_Session_Id" is "Mcp-Session-Id" (RFC 3875
// section 4.1.18), so it would bypass the checks of the guard. Other names with such characters
// stay: the names of some headers contain the name of a parameter of a tool.
func dropOtherSpellings(header http.Header) {
	for name := range header {
		if !headername.Canonical(name) && judgedHeaders.Has(name) {
			delete(header, name)
		}
	}
}
