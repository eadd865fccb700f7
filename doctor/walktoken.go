package doctor

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
)

// listBody is a request within a session that does not exist.
const listBody = `{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{}}`

// withToken asks the protected server with a token. The token goes to the target only, in the
// header, and never over plain http to another machine.
func (w *walker) withToken(ctx context.Context, token string) {
	if token == "" || plain(w.target) {
		return
	}
	w.hide.add(token)
	w.token = token
	bearer := http.Header{"Authorization": {"Bearer " + token}}
	w.ask(ctx, w.message("token.stateless", stateless, discoverBody, bearer))
	session := w.ask(ctx, w.message("token.session", sessions, initializeBody, bearer))
	w.ask(ctx, w.message("token.unknown", sessions, unknownBody, inSession(session, bearer)))
	lost := bearer.Clone()
	lost["Mcp-Session-Id"] = []string{"doctor-no-such-session"}
	w.ask(ctx, w.message("token.lost", sessions, listBody, lost))
	if changed, ok := altered(token); ok {
		w.hide.add(changed)
		w.ask(ctx, w.message("token.altered", sessions, initializeBody, http.Header{"Authorization": {"Bearer " + changed}}))
	}
	if id := session.get("Mcp-Session-Id"); id != "" {
		w.ask(ctx, w.message("token.alone", sessions, listBody, http.Header{"Mcp-Session-Id": {id}}))
		w.ask(ctx, question{"token.end", http.MethodDelete, w.target, inSession(session, bearer), ""})
	}
}

// inSession adds the session that an answer began, if it began one.
func inSession(e *exchange, header http.Header) http.Header {
	if header = header.Clone(); header == nil {
		header = http.Header{}
	}
	if id := e.get("Mcp-Session-Id"); id != "" {
		header["Mcp-Session-Id"] = []string{id}
	}
	return header
}

// altered returns a token in three parts with another signature: a bit in its middle differs, so
// that every decoder sees it.
func altered(token string) (string, bool) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 || len(parts[2]) < 4 {
		return "", false
	}
	signature := []byte(parts[2])
	at := len(signature) / 2
	if signature[at] == 'A' {
		signature[at] = 'B'
	} else {
		signature[at] = 'A'
	}
	return parts[0] + "." + parts[1] + "." + string(signature), true
}

// claims returns what a token says that is a JWT, nil for others. Nothing is verified.
func claims(token string) map[string]any {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return nil
	}
	var all map[string]any
	if json.Unmarshal(raw, &all) != nil {
		return nil
	}
	return all
}
