package middleware

import (
	"crypto/rand"
	"net/http"
)

// sessionHeader carries the id of a session, in revisions of the protocol with sessions.
const sessionHeader = "Mcp-Session-Id"

// bindHandles makes the keys of the handles. They are of this resource alone, so that no other
// resource accepts a session, an event or a cursor of it, also if all have the same Config.Sessions.
func (g *Guard) bindHandles(c *Config) {
	key := make([]byte, minHandleKey)
	if c.Sessions != nil {
		key = c.Sessions.key
	} else {
		_, _ = rand.Read(key) // never fails
	}
	g.handles = &Handles{key: macOf(key, "gatehouse: handles of a resource", g.resource)}
	if !c.InsecureUnboundSessions && g.policy.routes == nil {
		g.sessions = g.handles
	}
}

// openSession replaces the bound session id of a request by the one that the handler issued. The
// session of another caller is refused like one that has ended, so that callers cannot find out
// which sessions exist (MCP Streamable HTTP, Session Management: 404 starts a new session).
func (g *Guard) openSession(r *http.Request, token *Token) error {
	values := r.Header[sessionHeader]
	if g.sessions == nil || len(values) == 0 {
		return nil
	}
	if len(values) > 1 {
		return malformed("Send one Mcp-Session-Id header.")
	}
	id, err := g.sessions.Open(sessionHeader, token, values[0])
	if err != nil {
		return challenge{status: http.StatusNotFound, description: "There is no such session.", cause: err}
	}
	r.Header[sessionHeader] = []string{id}
	return nil
}

// bindSession binds the session id that the handler issues.
func (g *Guard) bindSession(header http.Header, token *Token) {
	if id := header.Get(sessionHeader); g.sessions != nil && id != "" {
		header.Set(sessionHeader, g.sessions.Bind(sessionHeader, token, id))
	}
}
