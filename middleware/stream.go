package middleware

import (
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"net/http"
	"strings"
	"time"
)

const (
	// lastEvent is the header with the id of the last event that a client received before it
	// resumes a stream (HTML standard, section 9.2.4).
	lastEvent = "Last-Event-Id"
	// versionHeader carries the revision of the protocol that a client uses.
	versionHeader = "Mcp-Protocol-Version"
	// ownEvent is the prefix of the ids of the guard's own events.
	ownEvent = "gatehouse-"
)

// life returns the context of a request for the handler, and its cancel function. With
// Config.EndStreams it ends with the token.
func (g *Guard) life(ctx context.Context, token *Token) (context.Context, context.CancelFunc) {
	if !g.ends || token == nil {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, g.lifeOf(token))
}

// lifeOf returns how long a token is still accepted.
func (g *Guard) lifeOf(token *Token) time.Duration {
	return token.Expiry.Add(token.leeway).Sub(g.now())
}

// marksEvents reports whether the guard tells ids of its own events from those of the handler. It then
// reads every stream: an id may come back from any of them. Behind [Policy.Routes] it has no events.
func (g *Guard) marksEvents() bool { return g.policy.routes == nil && (g.ends || g.sessions != nil) }

// openEvent replaces the bound event id of a request by the one that the handler issued. It
// refuses the id of another caller, because servers find streams by it, also those of other
// callers (MCP Streamable HTTP, Resumability and Redelivery). In place of the id of the guard's
// own event, the handler gets the id of the last event before it.
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
	if rest, ok := strings.CutPrefix(id, ownEvent); ok && g.marksEvents() {
		_, id, _ = strings.Cut(rest, "-")
	}
	if id == "" {
		delete(r.Header, lastEvent)
		return nil
	}
	r.Header[lastEvent] = []string{id}
	return nil
}

// prime begins a stream with an event that has an id and no data, which clients ignore (MCP
// 2025-11-25, Streamable HTTP, Sending Messages to the Server). Some clients treat a stream that
// ends without an event id as a failure and give up the session; with the id, they resume the
// stream that ended with the token. The id is new each time, and contains the id of the last
// event that the client received before.
func (s *eventStream) prime() {
	id := ownEvent + rand.Text()
	if before := s.request.Header.Get(lastEvent); before != "" {
		id += "-" + before
	}
	_, _ = io.WriteString(s.response.ResponseWriter, "id: "+s.bound(id)+"\ndata:\n\n") // fails only when the client is gone
}

// bound returns the event id for the client.
func (o *response) bound(id string) string {
	if o.guard.sessions == nil {
		return id
	}
	return o.guard.sessions.Bind(lastEvent, o.token, id)
}

// bindEvent returns the line with the event id for the client. It trims blanks around the id,
// which the header Last-Event-ID cannot carry. It does not bind an empty id. An id that looks like
// that of the guard's own event is one of the handler all the same, which may be a guard itself: it
// becomes the last event before an event of this guard, so that the handler gets it back.
func (o *response) bindEvent(line, value []byte) []byte {
	value = bytes.Trim(value, " \t")
	alike := o.guard.marksEvents() && bytes.HasPrefix(value, []byte(ownEvent))
	if len(value) == 0 || o.guard.sessions == nil && !alike {
		return line
	}
	id := string(value)
	if alike {
		id = ownEvent + "-" + id
	}
	return []byte("id: " + o.bound(id))
}
