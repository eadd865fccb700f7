package gateway_test

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"time"

	"gatehouse.example/gateway"
	"gatehouse.example/middleware"
)

// ask sends a request of somebody.
func (l *life) ask() {
	g := one(l, l.gates...)
	r := &livesRequest{method: one(l, "POST", "POST", "GET", "GET", "HEAD", "PUT", "DELETE"), scheme: "Bearer", proxied: l.chance(2), agreed: true, headers: map[string]string{
		"User-Agent": "lives", "Accept": "application/json, text/event-stream",
	}}
	r.host, r.path, r.query = g.host, g.path+one(l, g.places()...), one(l, "", "", "a=%2F..")
	if r.path == "" {
		r.path = "/"
	}
	if l.chance(12) {
		r.host = one(l, strings.ToUpper(r.host), r.host+":443", r.host+".", "other.example.com", r.host+":8443")
	}
	if l.chance(12) {
		r.path = one(l, "/MCP", "/mcp/../api", "/mcp;a/x", "/other", "/mcp/%2e%2e/x", "/mcp/%2Fx", "//mcp", "/mcpx", "/api/%2E%2e/mcp")
	}
	if r.method == http.MethodPost || r.method == http.MethodPut {
		r.rpc = one(l, "tools/call", "tools/call", "ping", "initialize")
		r.headers["Content-Type"] = "application/json"
		if r.rpc == "tools/call" {
			r.name = one(l, "list_notes", "add_note", "drop", "other")
		}
	}
	if r.verify = l.chance(5); r.verify {
		if r.agreed = !l.chance(8); l.chance(3) {
			if r.alone = g; l.chance(2) {
				r.path = "/elsewhere"
			}
		}
		if r.sighted = l.chance(2) && r.rpc != ""; r.sighted {
			r.headers["Mcp-Protocol-Version"], r.headers["Mcp-Method"] = "2026-07-28", r.rpc
			if r.name != "" {
				r.headers["Mcp-Name"] = r.name
			}
		}
	}
	for _, name := range []string{"Accept-Language", "X-Trace-Custom", "Mcp-Param-User", "Via", "X-Team-User", "X_Team_User", "X-Up-Key", "X_up_key", "Gatehouse-Subject", "gatehouse_subject", "Gatehouse_Assertion",
		"X-Forwarded-User", "X-Forwarded-Server", "Cookie", "Idempotency-Key", "X-Request-Id", "Te", "Forwarded", "Proxy", "X-Real-Ip", "X-Original-Method", "X-Api-Key", "Remote-User", "Client-Cert", "X_Client_Cert",
		"X-Tls-Cert", "X-Auth-Request-Email", "Connection", "X-Http-Method-Override", "Upgrade"} {
		if l.chance(12) {
			r.headers[name] = "forged"
		}
	}
	if r.headers["Connection"] != "" {
		r.headers["Connection"] = one(l, "X-Trace-Custom", "Gatehouse-Subject, X-Forwarded-For, X-Forwarded-Host", "X-Up-Key, Gatehouse-Assertion, Via", "Mcp-Session-Id, close")
	}
	r.fails = one(l, "", "", "", "", "", "", "", "dead", "401", "407", "503", "away", "back")
	if l.chance(12) && r.method == http.MethodGet {
		r.fails = "busy"
	}
	if len(l.sessions) > 0 && l.chance(3) && !r.verify {
		r.session = one(l, l.sessions[max(0, len(l.sessions)-4):]...)
	}
	l.authorize(r, g)
	if r.fails == "busy" && r.method != http.MethodGet { // a proof for another request brought its method
		r.fails = ""
	}
	l.send(r)
}

// places returns paths below a resource.
func (g *livesGate) places() []string {
	switch g.at {
	case 1:
		return []string{"/notes", "/notes", "/notes/1", "/notes/a%20b", "/Notes", "/Notes/1", "/notes/", "/notes/1.json", "/admin/x", "/ADMIN/x", "/admin.json", "/other", ""}
	case 2:
		return []string{"", "/a", "/a/b", "/mcp", "/api/notes", "/a%20b", "/a/"}
	}
	return []string{"", "", "", "/x", "/x/", "/a%20b"}
}

// authorize gives a request a token, and what it is bound to.
func (l *life) authorize(r *livesRequest, g *livesGate) {
	if l.chance(10) {
		return
	}
	r.token = one(l, l.tokens...)
	for range 60 { // most often one that could be good
		if k := r.token; !l.now().After(k.ends) && slices.Contains(k.audience, g.resource) || l.chance(20) {
			break
		}
		r.token = one(l, l.tokens[max(0, len(l.tokens)-12):]...)
	}
	k := r.token
	if k.cert != "" || l.chance(10) {
		r.certAt, r.cert = one(l, "Client-Cert", "X-Tls-Cert", g.cert, g.cert), one(l, k.cert, k.cert, "another")
		if r.certAt == "" {
			r.certAt = "Client-Cert"
		}
		encoded := base64.StdEncoding.EncodeToString([]byte(r.cert))
		if r.headers[r.certAt] = encoded; r.certAt == "Client-Cert" {
			r.headers[r.certAt] = ":" + encoded + ":"
		}
	}
	if k.key == nil && !l.chance(12) || k.key != nil && l.chance(12) {
		return
	}
	r.scheme = "DPoP"
	if l.chance(10) {
		return
	}
	if l.chance(4) && len(l.made) > 0 {
		r.proof = one(l, l.made[max(0, len(l.made)-4):]...)
		r.token = r.proof.token
		if p := r.proof; l.chance(2) {
			r.method, r.path, r.rpc, r.name = p.method, "/"+strings.SplitN(p.url, "/", 4)[3], "", ""
			r.host = strings.Split(p.url, "/")[2]
		}
		return
	}
	r.proof = l.prove(r, g)
}

// prove makes a proof for a request, most often a good one.
func (l *life) prove(r *livesRequest, g *livesGate) *livesProof {
	p := &livesProof{method: r.method, url: "https://" + g.host + r.path, token: r.token, by: r.token.key, used: map[int]bool{},
		at: l.now().Add(one(l, 0, 0, 0, -4*time.Minute, 4*time.Minute, -6*time.Minute, 6*time.Minute)).Truncate(time.Second)}
	if p.by == nil || l.chance(12) {
		p.by = one(l, l.proofs...)
	}
	if l.chance(12) {
		p.url = one(l, l.gates[0].resource, l.gates[1].resource+"/notes", "https://files.example.com/")
	}
	l.count++
	members := claims{"jti": fmt.Sprint("proof-of-a-life-", l.count), "iat": p.at.Unix()}
	if from := one(l, g, g, g, l.gates[0]); !l.chance(4) {
		w := httptest.NewRecorder()
		raw := httptest.NewRequest(http.MethodGet, from.resource, nil)
		raw.Header.Set("Authorization", "Basic x")
		l.router.ServeHTTP(w, raw)
		if p.nonce = w.Header().Get("DPoP-Nonce"); p.nonce != "" && p.nonce != "of the upstream" {
			l.nonces[p.nonce] = livesNonce{l.now(), from.handles}
			members["nonce"] = p.nonce
		}
	}
	p.text = p.by.Prove(p.method, p.url, p.token.text, members)
	l.made = append(l.made, p)
	return p
}

// body returns the message of a request.
func (r *livesRequest) body() string {
	switch {
	case r.rpc == "":
		return ""
	case r.name == "":
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":%q}`, r.rpc)
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":%q,"params":{"name":%q}}`, r.rpc, r.name)
}

// raw returns a request as it comes to the router.
func (r *livesRequest) raw() *http.Request {
	target := r.path
	if r.query != "" {
		target += "?" + r.query
	}
	raw := httptest.NewRequest(r.method, "http://x.example.com/", strings.NewReader(r.body()))
	if r.body() == "" {
		raw.Body, raw.ContentLength = http.NoBody, 0
	}
	if r.verify {
		target = "/verify"
		raw.Method, raw.Body, raw.ContentLength = http.MethodGet, http.NoBody, 0
	}
	u, err := url.Parse("http://x.example.com" + target)
	if err != nil {
		panic(err)
	}
	raw.URL.Path, raw.URL.RawPath, raw.URL.RawQuery, raw.RequestURI, raw.Host = u.Path, u.RawPath, u.RawQuery, target, r.host
	raw.RemoteAddr = livesStranger + ":1"
	for name, value := range r.headers {
		raw.Header[name] = []string{value}
	}
	if r.proxied {
		raw.RemoteAddr, raw.Host = livesProxy+":1", "inside.example.net"
		raw.Header["X-Forwarded-For"] = []string{"192.0.2.99, " + livesClient}
		raw.Header["X-Forwarded-Host"] = []string{r.host}
	} else {
		raw.Header["X-Forwarded-For"] = []string{"192.0.2.1"}
		raw.Header["X-Forwarded-Host"] = []string{"files.example.com"}
	}
	if r.verify {
		raw.Header["X-Forwarded-Uri"] = []string{r.path + "?q"}
		raw.Header["X-Forwarded-Method"] = []string{r.method}
		if !r.agreed {
			raw.Header["X-Original-Url"] = []string{"https://" + r.host + "/another"}
		}
	}
	if r.token != nil {
		raw.Header.Set("Authorization", r.scheme+" "+r.token.text)
	}
	if r.proof != nil {
		raw.Header["Dpop"] = []string{r.proof.text}
	}
	if r.session != nil {
		raw.Header["Mcp-Session-Id"] = []string{r.session.outer}
	}
	return raw
}

// named says what a request is.
func (l *life) named(r *livesRequest) string {
	out := fmt.Sprintf("%s %s%s?%s %s %q, token %d as %s, proxied %t, cert %q at %s, upstream %q, headers %v", r.method, r.host, r.path, r.query, r.rpc, r.name, slices.Index(l.tokens, r.token), r.scheme,
		r.proxied, r.cert, r.certAt, r.fails, slices.Sorted(maps.Keys(r.headers)))
	if r.verify {
		out = fmt.Sprintf("/verify (alone %t, agreed %t, sighted %t) of ", r.alone != nil, r.agreed, r.sighted) + out
	}
	if p := r.proof; p != nil {
		out += fmt.Sprintf(", proof %d for %s %s of %s with %q", slices.Index(l.made, p), p.method, p.url, p.at.Format("15:04:05"), p.nonce)
	}
	if s := r.session; s != nil {
		out += fmt.Sprintf(", session %+v", *s)
	}
	return out
}

// reached compares what the upstream and the client got with the model.
func (l *life) reached(g *livesGate, r *livesRequest, w *httptest.ResponseRecorder, began time.Time) {
	l.t.Helper()
	times := 1
	if r.fails == "busy" {
		times = 2
	}
	if len(l.seen) != times {
		l.t.Errorf("%d requests at the upstream", len(l.seen))
		return
	}
	ids := map[string]bool{}
	for i, seen := range l.seen {
		if seen.Method != r.method || seen.URL.String() != g.to(r) || l.bodies[i] != r.body() {
			l.t.Errorf("the upstream gets %s %s %s, want %s", seen.Method, seen.URL, l.bodies[i], g.to(r))
		}
		got := seen.Header.Clone()
		if id := got.Get("X-Request-Id"); id == "" || id == "forged" || id != w.Header().Get("X-Request-Id") {
			l.t.Errorf("the upstream gets the id %q of a request", id)
		}
		delete(got, "X-Request-Id")
		ids[got.Get("Gatehouse-Assertion")] = true
		l.identified(g, r, got, began, r.method+" "+strings.TrimPrefix(g.to(r), "http://up.example.org"), r.body())
		delete(got, "Gatehouse-Assertion")
		want := l.sent(g, r)
		if !maps.EqualFunc(got, want, slices.Equal) {
			l.t.Errorf("the upstream gets %v\nwant %v", got, want)
		}
		end, limited := seen.Context().Deadline()
		if ends := g.ends && r.token != nil; limited != ends || limited && (end.Before(began.Add(r.token.ends.Add(10*time.Second).Sub(l.now()))) || end.After(time.Now().Add(r.token.ends.Add(10*time.Second).Sub(l.now())))) {
			l.t.Errorf("the request ends at %s", end)
		}
	}
	if g.identity == gateway.IdentityAssertion && r.token != nil && len(ids) != times {
		l.t.Error("an assertion was sent twice")
	}
	l.got(g, r, w)
}

// got compares what the client gets with the model, and keeps sessions.
func (l *life) got(g *livesGate, r *livesRequest, w *httptest.ResponseRecorder) {
	l.t.Helper()
	h, answered := w.Header(), w.Code != http.StatusBadGateway
	for _, name := range []string{"Set-Cookie", "Www-Authenticate", "Alt-Svc"} {
		if h.Get(name) != "" {
			l.t.Errorf("the client gets %s", name)
		}
	}
	if answered != (h.Get("X-Kept") == "yes") || h.Get("DPoP-Nonce") == "of the upstream" || h.Get("Access-Control-Allow-Origin") != "*" || !answered && r.fails == "dead" && h.Get("Retry-After") != "5" {
		l.t.Errorf("the client gets %v", h)
	}
	if key := h.Get("X-Up-Key"); g.own && key != "" {
		l.t.Errorf("the client gets the key %q", key)
	}
	if r.fails == "back" {
		want := map[int]string{0: "https://notes.example.com/mcp/x?y", 1: "", 2: "https://files.example.com/n/x?y"}[g.at]
		if got := h.Get("Location"); got != want {
			l.t.Errorf("the client is sent to %q, want %q", got, want)
		}
	}
	nonce := h.Get("DPoP-Nonce")
	if (nonce != "") != (g.nonces && g.dpop != middleware.DPoPOff) {
		l.t.Errorf("the client gets the nonce %q", nonce)
	}
	if id := h.Get("Mcp-Session-Id"); id != "" {
		if g.at == 1 && len(g.policy.Routes) > 0 {
			return // nothing is bound behind routes
		}
		inner := strings.TrimPrefix(g.to(&livesRequest{path: r.path}), "http://up.example.org")
		if id == inner || !strings.HasPrefix(id, inner+".") {
			l.t.Errorf("session %q reaches the client as %q", inner, id)
		}
		l.sessions = append(l.sessions, &livesSession{inner: inner, outer: id, of: r.token.principal(), handles: g.handles, gate: g.at})
	}
}

// identified compares what headers say about the caller with the model; about and body are those of a
// request that an assertion may be bound to.
func (l *life) identified(g *livesGate, r *livesRequest, got http.Header, began time.Time, about, body string) {
	l.t.Helper()
	text := got.Get("Gatehouse-Assertion")
	if (text != "") != (g.identity == gateway.IdentityAssertion && r.token != nil) {
		l.t.Errorf("the assertion is %q", text)
	}
	if r.verify && g.identity == gateway.IdentityHeaders {
		for name, want := range r.token.told() {
			if !slices.Equal(got[name], want) {
				l.t.Errorf("%s: %q, want %q", name, got[name], want)
			}
		}
	} else if r.verify && got.Get("Gatehouse-Subject") != "" {
		l.t.Errorf("the proxy gets %v", got)
	}
	if text == "" {
		return
	}
	a, k := l.assertion(text), r.token
	want := gateway.Assertion{Issuer: g.resource, Audience: g.upstream, Subject: k.subject, TokenIssuer: k.issuer, ClientID: k.client, Scope: strings.Join(k.scopes, " "),
		IssuedAt: a.IssuedAt, Expiry: a.IssuedAt + 60, ID: a.ID}
	if g.binds {
		sum := sha256.Sum256([]byte(body))
		want.RequestMethod, want.RequestTarget, _ = strings.Cut(about, " ")
		want.RequestBody = base64.RawURLEncoding.EncodeToString(sum[:])
	}
	if a != want || a.ID == "" || a.IssuedAt < began.Unix() || a.IssuedAt > time.Now().Unix() {
		l.t.Errorf("asserted %+v\nwant %+v", a, want)
	}
}
