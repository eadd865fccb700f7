package middleware

import (
	"net/http"

	"gatehouse.example/internal/framing"
)

// CloseUnclear returns a handler that calls next, and closes the connection after each request
// whose end two readers could determine differently: with Transfer-Encoding, beside which
// net/http silently drops a Content-Length; with HTTP/1.0; with another spelling of either
// header (RFC 9112 section 6.1). Put it around everything that your own listener serves, above
// all behind a proxy: the next request on such a connection may have been hidden in the body of
// the previous one. It does not change HTTP/2.
func CloseUnclear(next http.Handler) http.Handler { return framing.Close(next, nil) }
