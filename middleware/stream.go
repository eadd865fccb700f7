package middleware

import (
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"net/http"
	"strings"
)

const (
	// lastEvent is the header in which a client that opens a stream again says what it got
	// last (HTML standard, section 9.2.4).
	lastEvent = "Last-Event-Id"
	// versionHeader says which revision of the protocol a client speaks.
	versionHeader = "Mcp-Protocol-Version"
	// ownEvent begins the ids of the events with which the guard begins streams.
	ownEvent = "gatehouse-"
)

// life returns the context of a request for the handler, and what ends it. A stream must not
// outlive the token that opened it, if that is wanted.
func (g *Guard) life(ctx context.Context, token *Token) (context.Context, context.CancelFunc) {
	if !g.ends || token == nil {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, token.Expiry.Add(leeway).Sub(g.now())) // as long as it is accepted
}

// openEvent turns the bound id of an event back into the one that the handler gave out.
// Somebody else's is refused: servers find streams by it, of whomever they are (MCP Streamable
// HTTP, Resumability and Redelivery). Our own events the handler does not know; it hears of
// what the client got before.
func (g *Guard) openEvent(r *http.Request, token *Token) error {
	values := r.Header[lastEvent]
	if len(values) == 0 {
		return nil
	}
	if len(values) > 1 {
		return malformed("Send one Last-Event-ID header.")
	}
	id := values[0]
	if g.sessions != nil && id != "" {
		var err error
		if id, err = g.sessions.Open(lastEvent, token, id); err != nil {
			return challenge{status: http.StatusBadRequest, description: "There is no such event: open the stream without Last-Event-ID.", cause: err}
		}
	}
	if rest, ok := strings.CutPrefix(id, ownEvent); ok {
		_, id, _ = strings.Cut(rest, "-")
	}
	if id == "" {
		delete(r.Header, lastEvent)
		return nil
	}
	r.Header[lastEvent] = []string{id}
	return nil
}

// prime begins a stream with an event that has an id and no data, which clients do not show
// to anybody (MCP 2025-11-25, Streamable HTTP, Sending Messages to the Server). A client
// that opens its stream again whenever it ended with a token knows by the id that the
// stream was there; some take streams that end without any for failures, and give the
// session up. The id is new each time, and keeps what the client had got before.
func (s *eventStream) prime() {
	id := ownEvent + rand.Text()
	if before := s.request.Header.Get(lastEvent); before != "" {
		id += "-" + before
	}
	_, _ = io.WriteString(s.response.ResponseWriter, "id: "+s.bound(id)+"\ndata:\n\n") // fails only when the client is gone
}

// bound is the id of an event as the client gets it.
func (o *response) bound(id string) string {
	if o.guard.sessions == nil {
		return id
	}
	return o.guard.sessions.Bind(lastEvent, o.token, id)
}

// bindEvent returns the line with the id of an event as the client gets it. Blanks around an
// id are lost in the header in which it comes back. An empty id is none.
func (o *response) bindEvent(line, value []byte) []byte {
	id := bytes.Trim(value, " \t")
	if o.guard.sessions == nil || len(id) == 0 {
		return line
	}
	return []byte("id: " + o.bound(string(id)))
}
