package doctor

import (
	"context"
	"net/http"
	"net/url"
)

// callBody calls a tool that does not exist: nothing is changed by it.
const callBody = `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"doctor-unknown-tool","arguments":{}}}`

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

func (w *walker) endSession(ctx context.Context, token, session string) {
	header := bearing(token)
	header.Set("Mcp-Session-Id", session)
	header.Set("Mcp-Protocol-Version", sessions)
	w.ask(ctx, question{"use.session-end", http.MethodDelete, w.target, header, ""})
}

// abuse tries with tokens of the doctor's own what the target must refuse.
func (w *walker) abuse(ctx context.Context) {
	q := w.message("use.query", sessions, initializeBody, nil)
	q.url = withQuery(q.url, url.Values{"access_token": {w.signIn.first.access}})
	w.ask(ctx, q)
	if id := w.signIn.first.id; bearerToken.MatchString(id) && id != w.signIn.first.access {
		w.present(ctx, "use.id-token", id)
	}
}
