package gateway

import (
	"net/http"
	"strings"
)

// noWebsockets is the answer to a websocket handshake. It is the same with and without a good
// token, because it depends on neither.
var noWebsockets = refusal{status: http.StatusNotImplemented,
	description: "Websockets are not forwarded, because nothing could judge their messages. Use Streamable HTTP."}

// asksForWebsocket reports whether a request is the handshake of a websocket: GET with an upgrade
// (RFC 6455 section 4.1), also after a proxy has removed the headers of the connection, or an
// extended CONNECT of HTTP/2 (RFC 8441 section 4). Other upgrades, such as h2c, are ignored (RFC
// 9110 section 7.8): clients that offer them go on without.
func asksForWebsocket(r *http.Request) bool {
	switch r.Method {
	case http.MethodConnect:
		_, extended := r.Header[":protocol"]
		return extended
	case http.MethodGet:
		return len(r.Header["Sec-Websocket-Key"]) > 0 || offers(r.Header["Upgrade"], "websocket")
	}
	return false
}

// offers reports whether a header with a list names a protocol, in any version.
func offers(values []string, protocol string) bool {
	for part := range strings.SplitSeq(strings.Join(values, ","), ",") {
		name, _, _ := strings.Cut(strings.TrimSpace(part), "/")
		if strings.EqualFold(name, protocol) {
			return true
		}
	}
	return false
}

// refusedMethod returns the answer to a request for a tunnel, and to TRACE, whatever their path.
func refusedMethod(r *http.Request) (refusal, bool) {
	switch {
	case r.Method == http.MethodConnect && asksForWebsocket(r):
		return noWebsockets, true
	case r.Method == http.MethodConnect, r.Method == http.MethodTrace:
		return notAllowed(forwarded), true
	}
	return refusal{}, false
}
