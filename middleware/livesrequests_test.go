package middleware_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"time"

	"gatehouse.example/middleware"
)

// ask sends a request of somebody.
func (l *life) ask() {
	r := &livesRequest{method: http.MethodPost, kind: "request", scheme: "Bearer"}
	switch l.random.IntN(14) {
	case 0, 1, 2:
		r.rpc, r.name = "tools/call", one(l, append(livesTools, "other")...)
	case 3, 4:
		r.rpc = one(l, slices.Sorted(maps.Keys(livesLists))...)
	case 12, 13:
		l.askNamed(r)
	case 5:
		r.rpc, r.name = "resources/read", one(l, "notes://drafts/1", "notes://all", "file:///a")
	case 6, 7:
		r.rpc = one(l, "initialize", "initialize", "ping")
	case 8:
		r.rpc, r.kind = "notifications/cancelled", "notification"
	case 9:
		r.kind = "response"
	case 10:
		r.method, r.kind = http.MethodGet, ""
		if l.chance(2) && len(l.events) > 0 {
			r.event = l.latest(l.events)
		}
		if r.event != nil && l.rules.sessions == 3 && strings.HasPrefix(r.event.outer, "gatehouse-") {
			r.event = nil // where such ids are bound no more, the handler gets some part of it, which it does not know
		}
	default:
		r.method, r.kind = http.MethodDelete, ""
	}
	if r.method == http.MethodPost && l.chance(8) && r.rpc != "initialize" {
		r.method = http.MethodPut
	}
	if len(l.sessions) > 0 && l.chance(2) && r.rpc != "initialize" {
		r.session = l.latest(l.sessions)
	}
	l.authorize(r)
	l.goOn(r)
	l.send(r)
}

// latest returns one of the handles, most often a late one.
func (l *life) latest(all []*livesHandle) *livesHandle {
	return one(l, all[max(0, len(all)-4):]...)
}

// authorize gives a request a token, and a proof where there is reason for one.
func (l *life) authorize(r *livesRequest) {
	if l.chance(8) {
		return
	}
	r.token = one(l, l.tokens...)
	for range 40 { // most often one that could be good
		if k := r.token; !l.now().After(k.ends) && k.audience == resource && !k.revoked && (l.rules.both || !k.second) && (k.second || k.generation == l.generation) || l.chance(12) {
			break
		}
		r.token = one(l, l.tokens[max(0, len(l.tokens)-8):]...)
	}
	switch {
	case r.token.key == nil && (l.rules.dpop == middleware.DPoPOff || !l.chance(8)):
		return
	case r.token.key != nil && l.chance(8):
		return // a bound token as a bearer token
	}
	r.scheme = "DPoP"
	if l.chance(10) {
		return
	}
	if l.chance(3) && len(l.made) > 0 {
		r.proof = one(l, l.made[max(0, len(l.made)-4):]...)
		r.token = r.proof.token
		return
	}
	r.proof = l.prove(r)
}

// prove makes a proof for a request, most often a good one.
func (l *life) prove(r *livesRequest) *livesProof {
	p := &livesProof{method: r.method, token: r.token, by: r.token.key, at: l.now().Add(one(l, 0, 0, 0, -4*time.Minute, 4*time.Minute, -6*time.Minute, 6*time.Minute)).Truncate(time.Second)}
	if p.by == nil || l.chance(12) {
		p.by = one(l, l.proofs...)
	}
	if l.chance(12) {
		p.method = "PATCH"
	}
	l.count++
	members := claims{"jti": fmt.Sprint("proof-of-a-life-", l.count), "iat": p.at.Unix()}
	if !l.chance(4) {
		w := httptest.NewRecorder()
		l.guard.Protect(http.NotFoundHandler()).ServeHTTP(w, newRequest("GET", resource, "Authorization", "Basic x"))
		if p.nonce = w.Header().Get("DPoP-Nonce"); p.nonce != "" {
			l.nonces[p.nonce] = livesNonce{at: l.now(), key: l.handleKey}
			members["nonce"] = p.nonce
		}
	}
	p.text = p.by.Prove(p.method, resource, p.token.text, members)
	l.made = append(l.made, p)
	return p
}

// body returns the message of a request.
func (r *livesRequest) body() string {
	params := r.params()
	switch {
	case r.kind == "":
		return ""
	case r.kind == "response":
		return `{"jsonrpc":"2.0","id":7,"result":{}}`
	case r.kind == "notification":
		return fmt.Sprintf(`{"jsonrpc":"2.0","method":%q}`, r.rpc)
	case params == "":
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":%q}`, r.rpc)
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":%q,"params":%s}`, r.rpc, params)
}

// head sets the headers of a request.
func (r *livesRequest) head(h http.Header) {
	h.Set("Mcp-Protocol-Version", "2025-11-25")
	h.Set("Accept", "application/json, text/event-stream")
	if r.kind != "" {
		h.Set("Content-Type", jsonType)
	}
	if r.token != nil {
		h.Set("Authorization", r.scheme+" "+r.token.text)
	}
	if r.proof != nil {
		h.Set("DPoP", r.proof.text)
	}
	if r.session != nil {
		h.Set("Mcp-Session-Id", r.session.outer)
	}
	if r.event != nil {
		h.Set("Last-Event-Id", r.event.outer)
	}
}

// named says what a request is.
func (l *life) named(r *livesRequest) string {
	out := fmt.Sprintf("%s %s %q %s, token %d", r.method, r.rpc, r.params(), r.kind, slices.Index(l.tokens, r.token))
	if r.token != nil {
		out += " as " + r.scheme
	}
	if r.proof != nil {
		out += fmt.Sprintf(", proof %d for %s of %s with %q", slices.Index(l.made, r.proof), r.proof.method, r.proof.at.Format("15:04:05"), r.proof.nonce)
	}
	for _, h := range []*livesHandle{r.session, r.event, r.cursor} {
		if h != nil {
			out += fmt.Sprintf(", %s under %q", h.inner, h.key)
		}
	}
	return out
}

// inside returns what the handler gets for a handle.
func (l *life) inside(h *livesHandle) string {
	switch {
	case h == nil:
		return ""
	case l.rules.sessions == 3:
		return h.outer
	}
	return h.inner
}

// got compares what the client gets with the model, and keeps the handles in it.
func (l *life) got(r *livesRequest, w *httptest.ResponseRecorder) {
	l.t.Helper()
	keep := func(inner, outer string) *livesHandle {
		if bound := outer != inner; bound != (l.rules.sessions != 3) || !strings.HasPrefix(outer, inner) {
			l.t.Errorf("%q reaches the client as %q", inner, outer)
		}
		if l.rules.sessions == 3 {
			return &livesHandle{inner: inner, outer: outer}
		}
		return &livesHandle{inner: inner, outer: outer, of: r.token.principal(), key: l.handleKey}
	}
	l.goesOn(r)
	if id := w.Header().Get("Mcp-Session-Id"); id != "" {
		l.sessions = append(l.sessions, keep(fmt.Sprint("s-", l.count), id))
	}
	switch {
	case w.Code == http.StatusNotFound:
	case r.method == http.MethodGet:
		ids := idLine.FindAllStringSubmatch(w.Body.String(), -1)
		if own := l.rules.ends && r.token != nil; len(ids) == 0 || (len(ids) == 2) != own {
			l.t.Errorf("a stream: %s", w.Body)
			return
		}
		l.events = append(l.events, keep(fmt.Sprint("e-", l.count), ids[len(ids)-1][1]))
		if len(ids) == 2 && l.rules.sessions != 3 { // with the guard's own event, a stream goes on where it did before
			l.events = append(l.events, &livesHandle{inner: l.inside(r.event), outer: ids[0][1], of: r.token.principal(), key: l.handleKey})
		}
	case livesLists[r.rpc] != nil && w.Code == http.StatusOK:
		l.listed(r, w)
	}
}
