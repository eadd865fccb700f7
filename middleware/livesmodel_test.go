package middleware_test

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

const (
	livesAudience = "api://notes"
	livesLeeway   = 10 * time.Second
	livesFresh    = 10 * time.Second
	livesWindow   = 5 * time.Minute
)

var (
	livesScopes = []string{"notes:read", "notes:write", "notes:admin"} // what clients can ask for
	livesTools  = []string{"whoami", "list_notes", "list_all", "add_note", "drop"}
)

// livesRules is a configuration, as far as it changes.
type livesRules struct {
	policy          middleware.Policy
	optional, ends  bool
	dpop            middleware.DPoPUse
	nonces          bool
	sessions        int  // 0: a key of its own; 1, 2: configured keys; 3: unbound
	asks            bool // whether the first issuer is asked about its tokens
	audience, both  bool // whether there is a further audience, and a second issuer
	ruled           bool // whether notes:admin comes from a role at the first issuer
	challengeScopes []string
}

// livesToken is a token, and what each guard was told about it.
type livesToken struct {
	text             string
	subject, client  string
	second           bool // whether the second issuer made it, which makes opaque ones
	audience         string
	scopes           []string
	role             bool
	at, ends         time.Time
	key              *middlewaretest.ProofKey
	revoked          bool
	generation       int
	asked            time.Time
	askedBy          *middleware.Guard
	answer           bool
	withoutIssuer    bool // a text that nobody issued
	principalAtIssue string
}

// livesProof is a proof that was made, for a request and a token.
type livesProof struct {
	text, method string
	token        *livesToken
	by           *middlewaretest.ProofKey
	at           time.Time
	nonce        string
	used         bool
}

// livesHandle is a session, or an event of one, as a client has it.
type livesHandle struct {
	inner, outer string
	of           string // the principal, "" for nobody
	key          string // that bound it, "" for none
	list         string // of a cursor
}

// livesRequest is a request, in parts.
type livesRequest struct {
	method, rpc, name string
	kind              string // request, notification, response, or "" for no message
	token             *livesToken
	scheme            string
	proof             *livesProof
	session, event    *livesHandle
	names             []string     // further ones that the message is about
	template          bool         // whether it completes a resource, and not a prompt
	cursor            *livesHandle // where a list goes on
}

// livesWant is what must come of a request.
type livesWant struct {
	status int // 0: the handler is reached
	code   string
	scopes []string
	silent bool // no challenge
}

// livesModel is what a plain reading of the rules knows.
type livesModel struct {
	rules      livesRules
	now        func() time.Time
	down       bool
	downSince  time.Time
	keys       bool // whether the guard has keys of the first issuer
	generation int
	guard      *middleware.Guard
	handleKey  string
	nonces     map[string]livesNonce
}

type livesNonce struct {
	at  time.Time
	key string
}

// principal is issuer and subject, "" without a token.
func (k *livesToken) principal() string {
	if k == nil {
		return ""
	}
	return k.principalAtIssue
}

// judge says what a token is worth now: 0, 401 or 503.
func (m *livesModel) judge(k *livesToken) int {
	if k.withoutIssuer {
		switch {
		case !m.rules.both:
			return 401
		case m.down && !m.hasAnswer(k):
			return 503
		}
		m.ask(k)
		return 401
	}
	timely := !m.now().After(k.ends.Add(livesLeeway))
	forUs := k.audience == resource || k.audience == livesAudience && m.rules.audience
	if k.second {
		switch {
		case !m.rules.both:
			return 401
		case m.down && !m.hasAnswer(k):
			return 503
		}
		if !m.ask(k) || !timely || !forUs {
			return 401
		}
		return 0
	}
	if !timely || !forUs || k.key != nil && m.rules.dpop == middleware.DPoPOff { // the issuer need not be asked
		return 401
	}
	if !m.keys || m.down && m.now().Sub(m.downSince) > 24*time.Hour {
		return 503
	}
	if k.generation != m.generation {
		return 401
	}
	if !m.rules.asks {
		return 0
	}
	if m.down && !m.hasAnswer(k) {
		return 503
	}
	if !m.ask(k) {
		return 401
	}
	return 0
}

// hasAnswer reports whether the guard has an answer about a token that is fresh.
func (m *livesModel) hasAnswer(k *livesToken) bool {
	return k.askedBy == m.guard && m.now().Sub(k.asked) < livesFresh
}

// ask returns the answer about a token, an old one as long as it is fresh.
func (m *livesModel) ask(k *livesToken) bool {
	if !m.hasAnswer(k) {
		k.asked, k.askedBy, k.answer = m.now(), m.guard, !k.revoked && !k.withoutIssuer
	}
	return k.answer
}

// holds returns the scopes of a token here, with those that they imply.
func (m *livesModel) holds(k *livesToken) []string {
	if k == nil {
		return nil
	}
	out := slices.Clone(k.scopes)
	if m.rules.ruled && !k.second {
		out = slices.DeleteFunc(out, func(s string) bool { return s == "notes:admin" })
		if k.role {
			out = append(out, "notes:admin")
		}
	}
	for range 3 {
		for _, s := range out {
			out = append(out, m.rules.policy.Implies[s]...)
		}
	}
	return out
}

// isRuled reports whether the client of a token, or one without, cannot get a scope by asking.
func (m *livesModel) isRuled(k *livesToken, scope string) bool {
	if k == nil {
		return m.rules.ruled && scope == "notes:admin" && !m.rules.both
	}
	return m.rules.ruled && scope == "notes:admin" && !k.second
}

func (m *livesModel) askable(k *livesToken, scopes []string) []string {
	return slices.DeleteFunc(slices.Clone(scopes), func(s string) bool { return m.isRuled(k, s) })
}

// closest returns the scopes of the pattern that fits best.
func closest(rules map[string][]string, name string) ([]string, bool) {
	best, found := "", false
	for _, pattern := range slices.Sorted(maps.Keys(rules)) {
		stem, open := strings.CutSuffix(pattern, "*")
		if fits := pattern == name || open && strings.HasPrefix(name, stem); fits && (!found || len(stem) > len(strings.TrimSuffix(best, "*"))) {
			best, found = pattern, true
		}
	}
	return rules[best], found
}

// needs returns the scopes of an operation, false if it is for nobody.
func (m *livesModel) needs(rpc string, template bool, names ...string) ([]string, bool) {
	p := &m.rules.policy
	out := slices.Clone(p.Scopes)
	if p.ReadsMessages() {
		more, _ := closest(p.Methods, rpc)
		out = append(out, more...)
		part := m.part(rpc, template)
		for _, name := range names {
			if len(part) == 0 {
				break
			}
			more, ok := closest(part, name)
			if !ok {
				return nil, false
			}
			out = append(out, more...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), true
}

func (m *livesModel) lacks(k *livesToken, needed []string) []string {
	held := m.holds(k)
	return slices.DeleteFunc(slices.Clone(needed), func(s string) bool { return slices.Contains(held, s) })
}

// credentials says what must come of the credentials of a request. A proof that is good is used up.
func (m *livesModel) credentials(r *livesRequest) (livesWant, bool) {
	first := m.rules.challengeScopes
	if first == nil {
		first = livesScopes
	}
	first = m.askable(nil, first)
	refuse := func(code string) (livesWant, bool) {
		want := livesWant{status: 401, code: code}
		if code == "" || code == "invalid_token" {
			want.scopes = first
		}
		return want, false
	}
	k, proofs := r.token, m.rules.dpop != middleware.DPoPOff
	switch {
	case k == nil && m.rules.optional:
		return livesWant{}, true
	case k == nil || r.scheme == "DPoP" && !proofs:
		return refuse("")
	}
	switch m.judge(k) {
	case 503:
		return livesWant{status: 503, code: "temporarily_unavailable", silent: true}, false
	case 401:
		return refuse("invalid_token")
	}
	switch {
	case k.key != nil && (!proofs || r.scheme != "DPoP"),
		k.key == nil && proofs && (m.rules.dpop == middleware.DPoPRequired || r.scheme == "DPoP" || r.proof != nil):
		return refuse("invalid_token")
	case k.key == nil:
		return livesWant{}, true
	case r.proof == nil:
		return refuse("invalid_dpop_proof")
	}
	code := m.proves(r)
	if code != "" {
		return refuse(code)
	}
	r.proof.used = true
	return livesWant{}, true
}

// proves returns the error of a proof, "" for a good one.
func (m *livesModel) proves(r *livesRequest) string {
	p := r.proof
	if p.method != r.method || p.token != r.token || p.by != r.token.key {
		return "invalid_dpop_proof"
	}
	if m.rules.nonces {
		n, ok := m.nonces[p.nonce]
		if !ok || n.key != m.handleKey || m.now().Sub(n.at) > livesWindow {
			return "use_dpop_nonce"
		}
	} else if d := m.now().Sub(p.at); d > livesWindow || d < -livesWindow {
		return "invalid_dpop_proof"
	}
	if p.used {
		return "invalid_dpop_proof"
	}
	return ""
}

// expect says what must come of a request.
func (m *livesModel) expect(r *livesRequest) livesWant {
	want, ok := m.credentials(r)
	if !ok {
		return want
	}
	k := r.token
	needed, known := m.needs(r.rpc, r.template, r.about()...)
	if known && r.kind != "" && r.method != http.MethodPost && m.rules.policy.ReadsMessages() {
		more, _ := m.needs("", false)
		needed = append(needed, more...)
		slices.Sort(needed)
		needed = slices.Compact(needed)
	}
	missing := m.lacks(k, needed)
	switch {
	case !known:
		return livesWant{status: 403, silent: true}
	case k == nil && len(needed) > 0:
		return livesWant{status: 401, scopes: m.askable(nil, needed)}
	case len(missing) > 0 && len(m.askable(k, missing)) < len(missing):
		return livesWant{status: 403, silent: true}
	case len(missing) > 0:
		return livesWant{status: 403, code: "insufficient_scope", scopes: m.askable(k, needed)}
	case r.session != nil && !m.opens(r.session, k):
		return livesWant{status: 404, silent: true}
	case r.event != nil && !m.opens(r.event, k):
		return livesWant{status: 400, silent: true}
	case r.cursor != nil && m.filters(r.rpc) && (r.cursor.list != r.rpc || r.cursor.key != m.handleKey || r.cursor.of != k.principal()):
		return livesWant{status: 400, silent: true}
	}
	return livesWant{}
}

// opens reports whether a handle is good for whoever sends it. Without binding everything is.
func (m *livesModel) opens(h *livesHandle, k *livesToken) bool {
	return m.rules.sessions == 3 || h.key == m.handleKey && h.of == k.principal()
}
