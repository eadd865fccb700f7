package middleware

import (
	"net/http"

	"gatehouse.example/internal/framing"
)

// CloseUnclear returns a handler that answers like next, and closes the connection after each
// request on which two readers could disagree where it ends: with Transfer-Encoding, beside
// which net/http drops a Content-Length unseen; with HTTP/1.0; with another spelling of
// either header (RFC 9112 section 6.1). Put it around everything that a listener serves when
// the listener is your own, above all behind a proxy: what comes next on such a connection
// may be a request that was hidden in the body of the one before. HTTP/2 is left as it is.
func CloseUnclear(next http.Handler) http.Handler { return framing.Close(next, nil) }
