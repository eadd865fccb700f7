package doctor

import (
	"cmp"
	"context"
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"gatehouse.example/metadata"
)

// walker asks the questions of an examination and records the answers.
type walker struct {
	walk
	url     *url.URL
	options Options
	courier *courier
	hide    *secrets      // what no record may have
	back    *redirection  // where a sign-in comes back, nil without one
	paused  time.Duration // because servers asked to come later
}

func newWalker(target string, u *url.URL, o Options) *walker {
	c := newCourier(o, newJudge(u.Hostname(), o))
	return &walker{walk: walk{target: target, now: o.Now()}, url: u, options: o, courier: c, hide: c.hide}
}

// The protocol revisions that are tried.
const (
	stateless = "2026-07-28"
	sessions  = "2025-11-25"
)

// browserOrigin is the origin of a page in a browser that calls servers, that of the Inspector:
// servers on loopback accept pages of loopback only.
const browserOrigin = "http://localhost:6274"

// The messages of the walk. Each is the first of a client of its revision.
const (
	discoverBody = `{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"authz-doctor","version":"1"}}}}`
	initializeBody = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},` +
		`"clientInfo":{"name":"authz-doctor","version":"1"}}}`
	unknownBody = `{"jsonrpc":"2.0","id":1,"method":"doctor/unknown","params":{}}`
)

// ask sends a question, records it, and returns the answer, without the secrets that are known.
func (w *walker) ask(ctx context.Context, q question) *exchange {
	if q.header == nil {
		q.header = http.Header{}
	}
	e := w.again(ctx, q, w.courier.ask(ctx, q))
	w.exchanges = append(w.exchanges, e)
	return e
}

// walkResource asks a protected server and the authorization servers that it names. Of the time,
// the calls have a third, and the resource metadata half of what is left then.
func (w *walker) walkResource(ctx context.Context) {
	w.share(ctx, 1.0/3, w.calls)
	if w.dead() {
		return
	}
	w.share(ctx, 1.0/2, w.findPlaces)
	w.findServers(ctx)
	w.withToken(ctx, w.options.Token)
	if d := w.resource(); d != nil {
		w.browser(ctx, "resource", d.url)
	}
}

// calls calls the protected server as clients do, and in ways that it should refuse.
func (w *walker) calls(ctx context.Context) {
	w.ask(ctx, w.message("call.stateless", stateless, discoverBody, nil))
	if w.dead() {
		return
	}
	session := w.ask(ctx, w.message("call.session", sessions, initializeBody, nil))
	if session.opens() { // some servers ask for a token at the first use alone
		if w.ask(ctx, w.message("call.list", sessions, listBody, inSession(session, nil))).opens() {
			w.ask(ctx, w.message("call.tool", sessions, callBody, inSession(session, nil)))
		}
	}
	w.ask(ctx, w.message("call.unknown", sessions, unknownBody, nil))
	w.ask(ctx, question{"call.stream", http.MethodGet, w.target, http.Header{"Accept": {"text/event-stream"}}, ""})
	w.ask(ctx, w.message("call.wrong-token", sessions, initializeBody, http.Header{"Authorization": {"Bearer wrong-token-of-the-doctor"}}))
	w.ask(ctx, w.message("call.unsigned-token", sessions, initializeBody, http.Header{"Authorization": {"Bearer " + w.unsigned()}}))
	w.ask(ctx, w.message("call.origin", sessions, initializeBody, http.Header{"Origin": {browserOrigin}}))
	w.ask(ctx, preflight("call.preflight", w.target, http.MethodPost, "authorization,content-type,mcp-protocol-version,mcp-method"))
}

// dead reports whether the target cannot be asked at all, so that more questions tell nothing.
func (w *walker) dead() bool {
	return w.exchanges[0].failure != "" && w.exchanges[0].failure != failLimited
}

// message is a message to the protected server.
func (w *walker) message(place, revision, body string, more http.Header) question {
	header := http.Header{
		"Content-Type":         {"application/json"},
		"Accept":               {"application/json, text/event-stream"},
		"Mcp-Protocol-Version": {revision},
	}
	if revision == stateless {
		header["Mcp-Method"] = []string{"server/discover"}
	}
	for name, values := range more {
		header[name] = values
	}
	return question{place, http.MethodPost, w.target, header, body}
}

// unsigned returns a token for the target that nobody signed: a server that accepts it checks
// no signature.
func (w *walker) unsigned() string {
	part := base64.RawURLEncoding.EncodeToString
	end := w.now.Add(MaxTime).Unix()
	return part([]byte(`{"alg":"none","typ":"at+jwt"}`)) + "." + part(marshal(map[string]any{
		"iss": w.url.Scheme + "://" + w.url.Host, "aud": w.target, "sub": "doctor", "client_id": "doctor", "exp": end,
		"iat": w.now.Unix(), "jti": "doctor", "scope": "",
	})) + "."
}

// preflight is the question of a browser before a request from a page (Fetch, CORS-preflight).
func preflight(place, to, method, headers string) question {
	return question{place, http.MethodOptions, to, http.Header{
		"Origin":                         {browserOrigin},
		"Access-Control-Request-Method":  {method},
		"Access-Control-Request-Headers": {headers},
	}, ""}
}

// browser asks for a document as a page in a browser does: the protocol's own header makes a
// preflight necessary.
func (w *walker) browser(ctx context.Context, place, to string) {
	w.ask(ctx, preflight(place+".preflight", to, http.MethodGet, "mcp-protocol-version"))
	w.ask(ctx, question{place + ".origin", http.MethodGet, to, http.Header{"Origin": {browserOrigin}, "Accept": {"application/json"}}, ""})
}

// findPlaces asks for the resource metadata where clients look for it: where the challenge
// says, with the well-known path inserted, and at the root (MCP Protected Resource Metadata
// Discovery Requirements).
func (w *walker) findPlaces(ctx context.Context) {
	asked := map[string]bool{}
	add := func(form, to string) {
		if to == "" || asked[to] {
			return
		}
		asked[to] = true
		w.places = append(w.places, newDocument(w.fetch(ctx, "resource."+form, to), form))
	}
	add("header", w.named())
	root := w.url.Scheme + "://" + w.url.Host + "/.well-known/oauth-protected-resource"
	inserted := root + strings.TrimSuffix(w.url.EscapedPath(), "/")
	if w.url.RawQuery != "" {
		inserted += "?" + w.url.RawQuery
	}
	add("inserted", inserted)
	add("root", root)
}

// named returns the URL that the first challenge names, if it is one that may be asked.
func (w *walker) named() string {
	for _, place := range challenged {
		c, ok := bearer(w.call(place))
		if !ok {
			continue
		}
		at, _ := c.Get("resource_metadata")
		if askable(at) && w.trusts(hostname(at)) {
			return at
		}
	}
	return ""
}

// trusts reports whether a host that a challenge names may be asked.
func (w *walker) trusts(host string) bool {
	own := w.url.Hostname()
	return same(host, own) || loopback(host) && loopback(own) || slices.ContainsFunc(w.options.AllowHosts, func(h string) bool { return same(h, host) })
}

// bearer returns the first challenge for bearer tokens of an answer.
func bearer(e *exchange) (metadata.Challenge, bool) {
	if !e.answered() {
		return metadata.Challenge{}, false
	}
	all, err := metadata.ParseChallenges(e.header.Values("WWW-Authenticate"))
	if err != nil {
		return metadata.Challenge{}, false
	}
	for _, c := range all {
		if c.Is("Bearer") {
			return c, true
		}
	}
	return metadata.Challenge{}, false
}

// fetch gets a document. It follows up to two redirects on the same host.
func (w *walker) fetch(ctx context.Context, place, to string) *exchange {
	header := http.Header{"Accept": {"application/json"}, "Mcp-Protocol-Version": {sessions}}
	e := w.ask(ctx, question{place, http.MethodGet, to, header, ""})
	for range 2 {
		if !e.redirect() {
			break
		}
		next, ok := sameHost(e.url, e.get("Location"))
		if !ok {
			break
		}
		e = w.ask(ctx, question{place + ".redirected", http.MethodGet, next, header, ""})
	}
	return e
}

// sameHost resolves a location, if it stays at the host.
func sameHost(from, location string) (string, bool) {
	base, err := url.Parse(from)
	if err != nil {
		return "", false
	}
	to, err := base.Parse(location)
	if err != nil || to.Host != base.Host || (to.Scheme != "http" && to.Scheme != "https") {
		return "", false
	}
	return to.String(), true
}

// findServers asks each authorization server that the resource metadata names. Without
// metadata, clients take the origin of the server for one (MCP 2025-03-26).
func (w *walker) findServers(ctx context.Context) {
	issuers, _ := w.resource().list("authorization_servers")
	if w.resource() == nil && w.unknown() == "" {
		issuers = []string{w.url.Scheme + "://" + w.url.Host}
	}
	seen := map[string]bool{}
	for _, issuer := range issuers {
		if !askable(issuer) || seen[issuer] {
			continue
		}
		seen[issuer] = true
		if len(w.servers) == MaxServers {
			w.skipped = append(w.skipped, issuer)
			continue
		}
		w.server(ctx, issuer, w.resource() == nil)
	}
}

// askable reports whether a text is an absolute URL with http or https.
func askable(raw string) bool {
	u, err := url.Parse(raw)
	return err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
}

// walkIssuer asks an authorization server alone.
func (w *walker) walkIssuer(ctx context.Context) {
	w.alone = true
	w.server(ctx, w.target, false)
}

// scopes returns the scopes for which clients ask: those of the challenge, else those of the
// resource metadata (MCP Scope Selection Strategy).
func (w *walk) scopes() string {
	for _, place := range challenged {
		if c, ok := bearer(w.call(place)); ok {
			if scope, _ := c.Get("scope"); scope != "" {
				return scope
			}
		}
	}
	list, _ := w.resource().list("scopes_supported")
	return strings.Join(list, " ")
}

// identity returns the resource parameter that clients send.
func (w *walk) identity() string { return cmp.Or(w.resource().text("resource"), w.target) }
