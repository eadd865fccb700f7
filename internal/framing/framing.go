// Package framing ends connections on which two readers could disagree where a request ends.
//
// A proxy that reads a request by its Content-Length, in front of a server that reads it by
// its Transfer-Encoding, lets a stranger hide a second request in the body of the first.
// What is left of such a connection is nobody's request, so it is closed after the answer.
package framing

import (
	"net/http"

	"gatehouse.example/internal/headername"
)

// Unclear reports whether the connection of a request has to end with its answer: with
// Transfer-Encoding, because net/http drops a Content-Length beside it before anybody sees
// that there were two (RFC 9112 section 6.1: the server MUST close the connection after such
// a request); with HTTP/1.0, for which it drops the Transfer-Encoding (the same section: the
// framing is faulty, close); and with a header that readers who fold "_" or "." take for one
// of the two. HTTP/2 frames by itself.
func Unclear(r *http.Request) bool {
	if r.ProtoMajor != 1 {
		return false
	}
	if len(r.TransferEncoding) > 0 || r.ProtoMinor == 0 {
		return true
	}
	for name := range r.Header {
		if frames(name) {
			return true
		}
	}
	return false
}

// frames reports whether a name is another spelling of a header that says how long a body is.
func frames(name string) bool {
	return name != "Content-Length" && (headername.Is(name, "content-length") || headername.Is(name, "transfer-encoding"))
}

// Close returns a handler that answers like next, and says with every final answer that the
// connection ends if the request is [Unclear] or if ending, asked when the answer begins,
// says so. net/http then closes it, or over HTTP/2 takes no new requests on it. ending may
// be nil.
func Close(next http.Handler, ending func() bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := &answer{ResponseWriter: w, unclear: Unclear(r), ending: ending}
		next.ServeHTTP(answer, r)
		answer.begin()
	})
}

// answer sets its header when the answer begins and not before: what is between may clear
// headers, and the server may have begun to stop.
type answer struct {
	http.ResponseWriter
	unclear bool
	ending  func() bool
	begun   bool
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

// WriteHeader begins the answer. Those before the answer (1xx) end nothing.
func (a *answer) WriteHeader(status int) {
	if status >= http.StatusOK {
		a.begin()
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write begins the answer.
func (a *answer) Write(p []byte) (int, error) {
	a.begin()
	return a.ResponseWriter.Write(p)
}

// Flush begins the answer.
func (a *answer) Flush() { _ = a.FlushError() }

// FlushError begins the answer.
func (a *answer) FlushError() error {
	a.begin()
	return http.NewResponseController(a.ResponseWriter).Flush()
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
