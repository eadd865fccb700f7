package doctor

import (
	"context"
	"crypto/rand"
	"net/http"
	"net/url"
	"strings"
)

// The messages after the first. Neither changes anything: the tool does not exist.
const (
	listBody = `{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{}}`
	callBody = `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"doctor-unknown-tool","arguments":{}}}`
)

// bearing is the header with a bearer token.
func bearing(token string) http.Header {
	return http.Header{"Authorization": {"Bearer " + token}}
}

// present calls the target with a token that it should refuse. If it does not, the session that began
// is ended.
func (w *walker) present(ctx context.Context, place, token string) {
	e := w.ask(ctx, w.message(place, sessions, initializeBody, bearing(token)))
	if session := e.get("Mcp-Session-Id"); e.ok() && session != "" {
		w.endSession(ctx, token, session)
	}
}

// use calls the target with a token that it should accept, and with one that was altered.
func (w *walker) use(ctx context.Context, token string) {
	if w.alone {
		return
	}
	e := w.ask(ctx, w.message("use.session", sessions, initializeBody, bearing(token)))
	w.ask(ctx, w.message("use.stateless", stateless, discoverBody, bearing(token)))
	if session := e.get("Mcp-Session-Id"); e.ok() && session != "" {
		w.session(ctx, token, session)
	}
	wrong := altered(token)
	w.hide.add(wrong)
	w.present(ctx, "use.altered", wrong)
}

// session tries the session that the target began, and ends it (MCP Transports, Session Management).
func (w *walker) session(ctx context.Context, token, session string) {
	with := func(id string, header http.Header) http.Header {
		header.Set("Mcp-Session-Id", id)
		return header
	}
	w.ask(ctx, w.message("use.session-alone", sessions, listBody, with(session, http.Header{})))
	w.ask(ctx, w.message("use.session-unknown", sessions, listBody, with("doctor-"+rand.Text(), bearing(token))))
	w.endSession(ctx, token, session)
}

func (w *walker) endSession(ctx context.Context, token, session string) {
	header := bearing(token)
	header.Set("Mcp-Session-Id", session)
	header.Set("Mcp-Protocol-Version", sessions)
	w.ask(ctx, question{"use.session-end", http.MethodDelete, w.target, header, ""})
}

// altered changes one character in the middle of the last part of a token: of a JWT, the signature.
func altered(token string) string {
	begin := strings.LastIndexByte(token, '.') + 1
	at := begin + (len(token)-begin)/2
	if at >= len(token) {
		return token + "A"
	}
	other := byte('A')
	if token[at] == 'A' {
		other = 'B'
	}
	return token[:at] + string(other) + token[at+1:]
}

// abuse tries with tokens of the doctor's own what the target must refuse.
func (w *walker) abuse(ctx context.Context) {
	if w.alone {
		return
	}
	q := w.message("use.query", sessions, initializeBody, nil)
	q.url = withQuery(q.url, url.Values{"access_token": {w.signIn.first.access}})
	w.ask(ctx, q)
	if id := w.signIn.first.id; bearerToken.MatchString(id) && id != w.signIn.first.access {
		w.present(ctx, "use.id-token", id)
	}
}
