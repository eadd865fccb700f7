package authz

import (
	"encoding/json"
	"fmt"
	"net/http"
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
	w.Header()["Content-Type"] = valueJSON
	w.WriteHeader(status)
	_, _ = w.Write(body)
}
