package middleware

import (
	"crypto/rand"
	"io"
	"net/http"
	"strings"
)

// lastEvent is the header in which a client that opens a stream again says what it got last
// (HTML standard, section 9.2.4).
const lastEvent = "Last-Event-Id"

// ownEvent begins the ids of the events with which the guard begins streams.
const ownEvent = "gatehouse-"

// prime begins a stream with an event that has an id and no data, which clients do not show
// to anybody (MCP 2025-11-25, Streamable HTTP, Sending Messages to the Server). A client
// that opens its stream again whenever it ended with a token knows by the id that the
// stream was there; some take streams that end without any for failures, and give the
// session up.
func prime(w io.Writer) {
	_, _ = io.WriteString(w, "id: "+ownEvent+rand.Text()+"\ndata:\n\n") // fails only when the client is gone
}

// resume hides our own events from the handler: it does not know them, and nothing came
// after them that it could send again.
func (g *Guard) resume(r *http.Request) {
	if values := r.Header[lastEvent]; g.ends && len(values) == 1 && strings.HasPrefix(values[0], ownEvent) {
		delete(r.Header, lastEvent)
	}
}
