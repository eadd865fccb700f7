package gateway_test

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"gatehouse.example/gateway"
	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// livesSettings is the configuration of one gateway, as far as it changes.
type livesSettings struct {
	policy                 middleware.Policy
	identity               gateway.Identity
	binds                  bool // whether assertions are about requests
	dpop                   middleware.DPoPUse
	nonces, optional, ends bool
	sighted                bool   // whether /verify goes by headers about the message
	told                   bool   // whether /verify is told the request of the client
	shared                 bool   // whether its handles have a configured key
	cert                   string // the header with certificates of clients, "" for none
	passes, own            bool   // whether X-Team-User passes, and whether X-Up-Key is the gateway's
	challengeScopes        []string
}

// livesGate is one resource and its gateway.
type livesGate struct {
	livesSettings
	at             int
	resource, host string
	path, upstream string // without a slash at the end
	gate           *gateway.Gateway
	handles        string // the key of its sessions and nonces
}

// livesToken is an access token.
type livesToken struct {
	text, issuer, subject, client, id string
	audience                          []string
	scopes                            []string
	ends                              time.Time
	key                               *middlewaretest.ProofKey
	cert                              string
}

// livesProof is a proof for one request.
type livesProof struct {
	text, method, url, nonce string
	token                    *livesToken
	by                       *middlewaretest.ProofKey
	at                       time.Time
	used                     map[int]bool // by gateways
}

// livesSession is a session as a client has it.
type livesSession struct {
	inner, outer, of, handles string
	gate                      int
}

// livesNonce is a nonce, and for which key it is one.
type livesNonce struct {
	at      time.Time
	handles string
}

// livesRequest is a request, in parts.
type livesRequest struct {
	method, host, path, query string
	rpc, name                 string // of the message; empty for none
	proxied, verify           bool
	agreed                    bool       // whether the proxy names one URL, when it asks
	sighted                   bool       // whether headers describe the message, when it asks
	alone                     *livesGate // that the proxy asks itself, nil for the router
	token                     *livesToken
	scheme                    string
	proof                     *livesProof
	certAt, cert              string
	session                   *livesSession
	headers                   map[string]string // of the client, which the gateway may drop
	fails                     string            // what the upstream does
}

// livesWant is what must come of a request.
type livesWant struct {
	status int
	code   string
	scopes []string
	silent bool       // no challenge
	gate   *livesGate // that judges it, nil for none
	passed bool       // whether the guard allows it
}

// livesModel is what a plain reading of the rules knows.
type livesModel struct {
	now    func() time.Time
	gates  []*livesGate
	nonces map[string]livesNonce
}

const livesWindow = 5 * time.Minute

// of returns the gateway for a URL, or the status without one.
func (m *livesModel) of(host, path string) (*livesGate, int) {
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	for i, part := range parts {
		lower := strings.ToLower(part)
		if name, _, _ := strings.Cut(lower, ";"); name == ".." || strings.Contains(lower, "%2") && lower != "a%20b" || part == "" && i < len(parts)-1 {
			return nil, 400
		}
	}
	host = strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(host), ":443"), ".")
	known := false
	for _, g := range m.gates {
		known = known || g.host == host
		if g.host == host && (g.path == "" || path == g.path || strings.HasPrefix(path, g.path+"/")) {
			return g, 0
		}
	}
	if known {
		return nil, 404
	}
	return nil, 421
}

// expect says what must come of a request.
func (m *livesModel) expect(r *livesRequest) livesWant {
	g, status := m.of(r.host, r.path)
	if r.verify {
		return m.asked(r, g)
	}
	if status != 0 {
		return livesWant{status: status, silent: true}
	}
	want, ok := m.credentials(r, g, r.method, g.challenge(), g.optional)
	if want.gate = g; !ok {
		return want
	}
	if r.proof != nil {
		r.proof.used[g.at] = true
	}
	if want = g.judges(r); want.status == 0 {
		want = m.forwarded(r, g)
	}
	want.gate = g
	return want
}

// asked says what a proxy is told that asks about a request.
func (m *livesModel) asked(r *livesRequest, g *livesGate) livesWant {
	inside := true
	if r.alone != nil {
		g, _ = m.of(r.alone.host, r.path)
		inside = g == r.alone && r.proxied // else nobody tells what the client sent
		g = r.alone
	} else if !r.proxied || !r.agreed || g == nil {
		return livesWant{status: 403, silent: true}
	}
	if g.binds {
		return livesWant{status: 404, silent: true}
	}
	sighted := g.sighted && r.sighted && g.policy.ReadsMessages()
	first := g.challenge()
	if all := g.policy.AllScopes(); !sighted && (g.policy.ReadsMessages() || len(g.policy.Routes) > 0) {
		if first = all; len(all) == 0 {
			first = livesScopes
		}
	}
	method := r.method
	if !g.told || !inside {
		method = "" // no proof is good
	}
	want, ok := m.credentials(r, g, method, first, false)
	if want.gate = g; !ok {
		return want
	}
	if r.proof != nil {
		r.proof.used[g.at] = true
	}
	needed, known := g.policy.AllScopes(), true
	if sighted {
		needed, known = g.needs(&livesRequest{method: http.MethodPost, rpc: r.rpc, name: r.name})
	} else if !g.policy.ReadsMessages() && len(g.policy.Routes) == 0 {
		needed = g.policy.Scopes
	}
	if want = g.covers(r.token, needed, known); want.status == 0 {
		want.status, want.passed = 200, true
	}
	want.gate = g
	return want
}

func (g *livesGate) challenge() []string {
	if g.challengeScopes != nil {
		return g.challengeScopes
	}
	return livesScopes
}

// credentials says what comes of the credentials of a request.
func (m *livesModel) credentials(r *livesRequest, g *livesGate, method string, first []string, optional bool) (livesWant, bool) {
	refuse := func(code string) (livesWant, bool) {
		want := livesWant{status: 401, code: code}
		if code == "" || code == "invalid_token" {
			want.scopes = first
		}
		return want, false
	}
	k, proofs := r.token, g.dpop != middleware.DPoPOff
	switch {
	case k == nil && optional:
		return livesWant{}, true
	case k == nil || r.scheme == "DPoP" && !proofs:
		return refuse("")
	case m.now().After(k.ends.Add(10*time.Second)) || !slices.Contains(k.audience, g.resource),
		k.cert != "" && (g.cert == "" || !r.proxied || r.certAt != g.cert || r.cert != k.cert),
		k.key != nil && (!proofs || r.scheme != "DPoP"),
		k.key == nil && proofs && (g.dpop == middleware.DPoPRequired || r.scheme == "DPoP" || r.proof != nil):
		return refuse("invalid_token")
	case k.key == nil:
		return livesWant{}, true
	}
	p := r.proof
	switch {
	case p == nil, p.method != method, p.url != "https://"+g.host+r.path, p.token != k, p.by != k.key:
		return refuse("invalid_dpop_proof")
	}
	if g.nonces {
		if n, ok := m.nonces[p.nonce]; !ok || n.handles != g.handles || m.now().Sub(n.at) > livesWindow {
			return refuse("use_dpop_nonce")
		}
	} else if d := m.now().Sub(p.at); d > livesWindow || d < -livesWindow {
		return refuse("invalid_dpop_proof")
	}
	if p.used[g.at] {
		return refuse("invalid_dpop_proof")
	}
	return livesWant{}, true
}

// judges says what the policy of a resource says of a request, and of its session.
func (g *livesGate) judges(r *livesRequest) livesWant {
	if len(g.policy.Routes) > 0 && (r.session != nil || r.headers["X-Http-Method-Override"] != "") {
		return livesWant{status: 400, silent: true}
	}
	needed, known := g.needs(r)
	if want := g.covers(r.token, needed, known); want.status != 0 {
		return want
	}
	if r.session != nil && (r.session.handles != g.handles || r.session.of != r.token.principal() || r.session.gate != g.at) {
		return livesWant{status: 404, silent: true}
	}
	return livesWant{}
}

// needs returns the scopes of a request, false if it is for nobody.
func (g *livesGate) needs(r *livesRequest) ([]string, bool) {
	out := slices.Clone(g.policy.Scopes)
	switch {
	case len(g.policy.Routes) > 0:
		pattern := g.route(r.method, livesDecoded(r.path))
		if pattern == "" {
			return nil, false
		}
		out = append(out, g.policy.Routes[pattern]...)
		for _, reading := range livesReadings(livesDecoded(r.path)) {
			out = append(out, g.policy.Routes[g.route(r.method, reading)]...)
			if reading == "/api/admin" { // a server may redirect, or take it for what is below /api/
				out = append(append(out, g.policy.Routes["/api/admin/"]...), g.policy.Routes["/api/"]...)
			}
		}
	case r.rpc == "tools/call" && len(g.policy.Tools) > 0:
		needed, ok := g.policy.Tools[r.name]
		if !ok {
			return nil, false
		}
		out = append(out, needed...)
	}
	slices.Sort(out)
	return slices.Compact(out), true
}

func livesDecoded(path string) string { return strings.ReplaceAll(path, "%20", " ") }

// livesReadings returns how lenient servers read a path.
func livesReadings(path string) []string {
	path = strings.ToLower(path)
	out := []string{path, strings.TrimSuffix(path, ".json")}
	if bare := strings.TrimSuffix(path, "/"); bare != path {
		return append(out, bare, strings.TrimSuffix(bare, ".json"))
	}
	return append(out, path+"/")
}

// route returns the pattern for a path, "" for none.
func (g *livesGate) route(method, path string) string {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	rest, below := strings.CutPrefix(path, "/api/notes/")
	for _, one := range []struct {
		pattern string
		fits    bool
	}{
		{"GET /api/notes/{id}", below && rest != "" && !strings.Contains(rest, "/") && method == http.MethodGet},
		{"GET /api/notes", path == "/api/notes" && method == http.MethodGet},
		{"POST /api/notes", path == "/api/notes" && method == http.MethodPost},
		{"/api/admin/", strings.HasPrefix(path+"/", "/api/admin/")},
		{"/api/", strings.HasPrefix(path+"/", "/api/")},
	} {
		if _, ok := g.policy.Routes[one.pattern]; ok && one.fits {
			return one.pattern
		}
	}
	return ""
}

// covers says what comes of a request that needs scopes.
func (g *livesGate) covers(k *livesToken, needed []string, known bool) livesWant {
	missing := false
	for _, scope := range needed {
		missing = missing || k != nil && !slices.Contains(k.scopes, scope)
	}
	switch {
	case !known:
		return livesWant{status: 403, silent: true}
	case k == nil && len(needed) > 0:
		return livesWant{status: 401, scopes: needed}
	case missing:
		return livesWant{status: 403, code: "insufficient_scope", scopes: needed}
	}
	return livesWant{}
}

// forwarded says what comes of a request that the guard allows.
func (m *livesModel) forwarded(r *livesRequest, g *livesGate) livesWant {
	want := livesWant{status: 200, silent: true, gate: g, passed: true}
	switch r.fails {
	case "dead", "401", "407", "away":
		want.status = 502
	case "back":
		if want.status = 307; g.at == 1 {
			want.status = 502 // the upstream of this resource is elsewhere
		}
	case "503":
		want.status = 503
	}
	return want
}

// principal is issuer and subject, "" without a token.
func (k *livesToken) principal() string {
	if k == nil {
		return ""
	}
	return k.issuer + "|" + k.subject
}

// sent returns the headers that the upstream gets for a request, but for the id of the request and
// an assertion.
func (m *livesModel) sent(g *livesGate, r *livesRequest) http.Header {
	kept := map[string]bool{"Accept": true, "Accept-Language": true, "Content-Type": true, "User-Agent": true, "X-Trace-Custom": true, "Mcp-Param-User": true, "Via": true,
		"X-Team-User": g.passes, "X-Up-Key": !g.own, "X_up_key": !g.own, "Idempotency-Key": true, "Mcp-Method": true, "Mcp-Name": true, "Mcp-Protocol-Version": true}
	for _, name := range []string{"Client-Cert", "X-Tls-Cert"} { // the first one names an identity, whoever sets it
		kept[name] = name == "X-Tls-Cert" && !slices.ContainsFunc(m.gates, func(g *livesGate) bool { return g.cert == name })
	}
	out := http.Header{}
	for name, value := range r.headers {
		if kept[name] && !slices.Contains(strings.Split(r.headers["Connection"], ", "), name) {
			out[name] = []string{value}
		}
	}
	out["Via"] = append(out["Via"], "1.1 gatehouse")
	out.Set("X-Forwarded-Host", g.host)
	out.Set("X-Forwarded-Proto", "https")
	out.Set("X-Forwarded-For", livesStranger)
	if r.proxied {
		out.Set("X-Forwarded-For", livesClient+", "+livesProxy)
	}
	if r.session != nil && !slices.Contains(strings.Split(r.headers["Connection"], ", "), "Mcp-Session-Id") {
		out.Set("Mcp-Session-Id", r.session.inner)
	}
	if g.own {
		out.Set("X-Up-Key", "secret of "+g.host)
	}
	if r.token != nil && g.identity == gateway.IdentityHeaders {
		maps.Copy(out, r.token.told())
	}
	return out
}

// told returns the headers about the caller with a token.
func (k *livesToken) told() http.Header {
	plain := strings.NewReplacer("%", "%25", " ", "%20", "é", "%C3%A9")
	out := http.Header{}
	for name, value := range map[string]string{"Subject": plain.Replace(k.subject), "Issuer": k.issuer, "Client": k.client, "Scope": strings.Join(k.scopes, " ")} {
		out.Set("Gatehouse-"+name, value)
	}
	return out
}

// to returns the URL that the upstream gets for a request.
func (g *livesGate) to(r *livesRequest) string {
	rest := strings.TrimPrefix(r.path, g.path)
	if g.path == "" && rest == "/" {
		rest = ""
	}
	out := strings.TrimSuffix(g.upstream, "/") + rest
	if rest == "" {
		out = g.upstream
	}
	if strings.HasSuffix(out, ".example.org") {
		out += "/"
	}
	if r.query != "" {
		out += "?" + r.query
	}
	return out
}
