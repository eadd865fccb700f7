// Package framing closes connections on which two readers could disagree about the end of a
// request.
//
// If a proxy reads a request by its Content-Length and the server behind it by its
// Transfer-Encoding, an attacker can hide a second request in the body of the first (request
// smuggling). The rest of such a connection cannot be trusted, so it is closed after the
// response.
package framing

import (
	"bufio"
	"io"
	"net"
	"net/http"

	"gatehouse.example/internal/abilities"
	"gatehouse.example/internal/headername"
)

// Unclear reports whether the connection of a request has to be closed after the response:
// with Transfer-Encoding, because net/http drops a Content-Length beside it, so that a handler
// cannot see both (RFC 9112 section 6.1: the server MUST close the connection after such a
// request); with HTTP/1.0, for which net/http drops the Transfer-Encoding (the same section:
// the framing is faulty, close); and with a header that readers take for one of the two if
// they treat "_" or "." as a hyphen. HTTP/2 has its own framing.
func Unclear(r *http.Request) bool {
	if r.ProtoMajor != 1 {
		return false
	}
	if len(r.TransferEncoding) > 0 || r.ProtoMinor == 0 {
		return true
	}
	for name := range r.Header {
		if isFramingVariant(name) {
			return true
		}
	}
	return false
}

// isFramingVariant reports whether a name is another spelling of Content-Length or
// Transfer-Encoding.
func isFramingVariant(name string) bool {
	return name != "Content-Length" && (headername.Is(name, "content-length") || headername.Is(name, "transfer-encoding"))
}

// Close returns a handler that calls next and sets "Connection: close" in the final response
// if the request is [Unclear] or if ending returns true when the response begins. net/http
// then closes the connection, or over HTTP/2 accepts no new requests on it. ending may be nil.
func Close(next http.Handler, ending func() bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := &answer{ResponseWriter: w, unclear: Unclear(r), ending: ending}
		next.ServeHTTP(answer.able.Around(answer, w, true), r)
		answer.begin()
	})
}

// answer sets the header when the response begins and not before: handlers may clear headers
// until then, and the server may have begun to stop.
type answer struct {
	http.ResponseWriter
	unclear bool
	ending  func() bool
	begun   bool
	able    abilities.Writer
}

func (a *answer) begin() {
	if a.begun {
		return
	}
	a.begun = true
	if a.unclear || a.ending != nil && a.ending() {
		a.Header().Set("Connection", "close")
	}
}

// WriteHeader begins the response. Informational responses (1xx) do not.
func (a *answer) WriteHeader(status int) {
	if status >= http.StatusOK {
		a.begin()
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write begins the response.
func (a *answer) Write(p []byte) (int, error) {
	a.begin()
	return a.ResponseWriter.Write(p)
}

// FlushError begins the response.
func (a *answer) FlushError() error {
	a.begin()
	return http.NewResponseController(a.ResponseWriter).Flush()
}

// CopyFrom begins the response.
func (a *answer) CopyFrom(src io.Reader) (int64, error) {
	a.begin()
	return a.ResponseWriter.(io.ReaderFrom).ReadFrom(src)
}

// TakeOver gives the connection to the handler, whose response it then is.
func (a *answer) TakeOver() (net.Conn, *bufio.ReadWriter, error) {
	return http.NewResponseController(a.ResponseWriter).Hijack()
}
