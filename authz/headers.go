package authz

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
)

// The values of headers that every answer has. They are shared: a header is replaced or added to, and
// its values are never changed.
var (
	valueNoStore = []string{"no-store"}
	valueNoCache = []string{"no-cache"}
	valueNoSniff = []string{"nosniff"}
	valueAny     = []string{"*"}
	valueExposed = []string{"WWW-Authenticate, Retry-After, X-Request-Id"}
	valueJSON    = []string{"application/json"}

	valueHTML        = []string{"text/html; charset=utf-8"}
	valueDeny        = []string{"DENY"}
	valueSameOrigin  = []string{"same-origin"}
	valueNoReferrer  = []string{"no-referrer"}
	valuePermissions = []string{"camera=(), geolocation=(), microphone=(), payment=(), usb=()"}
	valueTransport   = []string{"max-age=31536000"}
)

func noStore(h http.Header) {
	h["Cache-Control"] = valueNoStore
	h["Pragma"] = valueNoCache
	h["X-Content-Type-Options"] = valueNoSniff
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("authz: cannot marshal %T: %v", v, err)) // only types of this package reach this
	}
	writeBody(w, status, body)
}

// writeBody sends JSON.
func writeBody(w http.ResponseWriter, status int, body []byte) {
	w.Header()["Content-Type"] = valueJSON
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// pageWriter keeps the status of an answer until its body, which a page writes in one piece: then the
// answer says how long it is, and net/http does not send it in chunks. A page that cannot be written has
// written nothing, and leaves its place to that of the error.
type pageWriter struct {
	http.ResponseWriter
	status int
	begun  bool
}

// WriteHeader implements [http.ResponseWriter].
func (p *pageWriter) WriteHeader(status int) { p.status = status }

// Write implements [http.ResponseWriter].
func (p *pageWriter) Write(body []byte) (int, error) {
	if !p.begun {
		p.begun = true
		p.Header()["Content-Length"] = []string{strconv.Itoa(len(body))}
		p.ResponseWriter.WriteHeader(cmp.Or(p.status, http.StatusOK))
	}
	return p.ResponseWriter.Write(body)
}

// end sends the status of an answer without a body.
func (p *pageWriter) end() {
	if !p.begun && p.status != 0 {
		p.ResponseWriter.WriteHeader(p.status)
	}
}

// Unwrap is for [http.ResponseController].
func (p *pageWriter) Unwrap() http.ResponseWriter { return p.ResponseWriter }
