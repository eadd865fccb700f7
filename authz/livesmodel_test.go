package authz_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"gatehouse.example/authz"
	"gatehouse.example/storage"
)

// The resources, groups and times of random lives. Notes and tasks are in the configuration; the wiki, a
// pattern for acme and globex, and at times acme by itself, are in the store.
var (
	livesResources = []string{notes, tasks, wiki, acme, globex}
	livesStored    = []string{wiki, tenantPattern, acme}
	livesGroups    = []string{"editors", "staff"}
)

const (
	livesAccess = 10 * time.Minute
	livesIdle   = 30 * 24 * time.Hour
	livesMax    = 90 * 24 * time.Hour
	livesSecret = "the-secret-of-all-servers-of-lives"
)

// access is resources and their scopes, in order.
type access map[string][]string

func (a access) String() string {
	out := []string{}
	for _, uri := range slices.Sorted(maps.Keys(a)) {
		out = append(out, fmt.Sprint(strings.TrimSuffix(strings.TrimPrefix(uri, "https://"), "/mcp"), a[uri]))
	}
	return strings.Join(out, " ")
}

// box is what the page sends for a scope: with one resource the scope, else both.
func (a access) box(uri, scope string) string {
	if len(a) == 1 {
		return scope
	}
	return uri + " " + scope
}

func (a access) boxes() []string {
	out := []string{}
	for uri, scopes := range a {
		for _, scope := range scopes {
			out = append(out, a.box(uri, scope))
		}
	}
	return slices.Sorted(slices.Values(out))
}

// where returns the pairs of a that fit.
func (a access) where(fits func(uri, scope string) bool) access {
	out := access{}
	for uri, scopes := range a {
		for _, scope := range scopes {
			if fits(uri, scope) {
				out[uri] = append(out[uri], scope)
			}
		}
	}
	return out
}

func (a access) has(uri, scope string) bool { return slices.Contains(a[uri], scope) }

func (a access) contains(b access) bool {
	return len(b.where(func(uri, scope string) bool { return !a.has(uri, scope) })) == 0
}

// model is what a plain reading of the rules knows.
type model struct {
	now     func() time.Time
	people  map[string]*modelPerson
	clients map[string]*modelClient   // by id
	entries map[string]*modelResource // by URI or pattern
	grants  []*modelGrant
	tokens  []*modelToken
	open    []*modelPage
}

type modelPerson struct {
	incarnation     int
	there, disabled bool
	password        string
	groups          map[string]bool
	memory          map[string][]modelMemory // by client
	browsers        []*modelBrowser
}

// modelBrowser is one of the browsers of a person.
type modelBrowser struct {
	*browser
	of       *modelPerson
	signedIn time.Time // zero if there is no session
	sessions int       // how many there were
}

func (w *modelBrowser) live(now time.Time) bool {
	return w.of.canSignIn() && !w.signedIn.IsZero() && now.Before(w.signedIn.Add(2*time.Hour))
}

// signOut ends the sessions of a person, except that of one browser.
func (p *modelPerson) signOut(but *modelBrowser) {
	for _, w := range p.browsers {
		if w != but {
			w.signedIn = time.Time{}
		}
	}
}

// signedIn returns the browsers in which the person is signed in.
func (p *modelPerson) signedIn(now time.Time) []*modelBrowser {
	return slices.DeleteFunc(slices.Clone(p.browsers), func(w *modelBrowser) bool { return !w.live(now) })
}

func (p *modelPerson) canSignIn() bool { return p.there && !p.disabled }

// modelMemory is a decision that is remembered.
type modelMemory struct {
	access    access
	about     int       // what the client stated
	at, until time.Time // until is zero for ever
}

type modelClient struct {
	there, disabled, recognised bool
	states                      int // what it states about itself
}

func (c *modelClient) usable() bool { return c.there && !c.disabled }

// modelResource is a resource or a pattern: who may use it, and who may have its scopes; "" is everybody.
type modelResource struct {
	there, disabled bool
	ended           time.Time
	allow           string
	scopes          map[string]string
}

func (r *modelResource) names() []string { return slices.Sorted(maps.Keys(r.scopes)) }

func (r *modelResource) configured(uri string) authz.Resource {
	allow := func(group string) (a authz.Allow) {
		if group != "" {
			a.Groups = []string{group}
		}
		return a
	}
	out := authz.Resource{URI: uri, Name: uri, Allow: allow(r.allow), Introspection: &authz.IntrospectionClient{Secret: livesSecret}}
	if uri != tenantPattern {
		out.Introspection.ID = uri
	}
	for _, name := range r.names() {
		out.Scopes = append(out.Scopes, authz.Scope{Name: name, Description: "Use " + name, Allow: allow(r.scopes[name])})
	}
	return out
}

type modelGrant struct {
	person     string
	of         int // the incarnation of the person
	client     testClient
	allowed    access
	at         time.Time
	code       string
	redeemed   bool
	over       bool
	ended      map[string]bool // resources that ended in this grant alone
	audience   string          // of the first token
	refreshes  []string
	rotated    time.Time
	idle, ends time.Time
}

func (g *modelGrant) id() string {
	id, _ := storage.CodeGrant(g.code)
	return id
}

func (g *modelGrant) refresh() string { return g.refreshes[len(g.refreshes)-1] }

type modelToken struct {
	grant  *modelGrant
	at     string
	scopes []string
	text   string
	ends   time.Time
}

// modelPage is a consent page that is open in a browser.
type modelPage struct {
	page           reply
	in             *modelBrowser
	person         string
	of, session    int
	client         testClient
	states         int
	asked, offered access
	at             time.Time
}

func newModel() *model {
	m := &model{people: map[string]*modelPerson{}, clients: map[string]*modelClient{}, entries: map[string]*modelResource{}}
	for _, name := range []string{personName, "other", "third"} {
		m.people[name] = &modelPerson{there: true, password: personPassword, groups: map[string]bool{}, memory: map[string][]modelMemory{}}
	}
	m.people[personName].groups["editors"], m.people[personName].groups["staff"], m.people["other"].groups["staff"] = true, true, true
	for _, name := range []string{"web", "native", "basic"} {
		m.clients[name+"-client"] = &modelClient{there: true, recognised: name != "native"}
	}
	m.entries[notes] = &modelResource{there: true, scopes: map[string]string{"notes:read": "", "notes:write": "editors"}}
	m.entries[tasks] = &modelResource{there: true, allow: "staff", scopes: map[string]string{"tasks:read": "", "tasks:write": ""}}
	m.entries[wiki] = &modelResource{there: true, scopes: map[string]string{"wiki:edit": "staff", "wiki:read": ""}}
	m.entries[tenantPattern] = &modelResource{there: true, scopes: map[string]string{"tools:admin": "editors", "tools:call": ""}}
	m.entries[acme] = &modelResource{scopes: map[string]string{"tools:call": ""}}
	return m
}

// entry returns what says who may use a URI: its own entry or, without one, a pattern; nil for none.
func (m *model) entry(uri string) *modelResource {
	if r := m.entries[uri]; r != nil && r.there {
		return r
	}
	if r := m.entries[tenantPattern]; r.there && (uri == acme || uri == globex) {
		return r
	}
	return nil
}

// credential returns the introspection secret of a resource, and whether it can introspect now.
func (m *model) credential(uri string) (string, bool) {
	r := m.entry(uri)
	if r != nil && r == m.entries[tenantPattern] {
		return authz.DeriveSecret(livesSecret, uri), !r.disabled
	}
	return livesSecret, r != nil && !r.disabled
}

// endedSince reports whether an entry of a URI was removed since a time.
func (m *model) endedSince(uri string, at time.Time) bool {
	for id, r := range m.entries {
		if (id == uri || id == tenantPattern && (uri == acme || uri == globex)) && !r.ended.IsZero() && !at.After(r.ended) {
			return true
		}
	}
	return false
}

// mayHave is the part of a, which was decided or asked for at a time, that a person may have now.
func (m *model) mayHave(p *modelPerson, a access, at time.Time) access {
	return a.where(func(uri, scope string) bool {
		r := m.entry(uri)
		if r == nil || r.disabled || m.endedSince(uri, at) || r.allow != "" && !p.groups[r.allow] {
			return false
		}
		group, defined := r.scopes[scope]
		return defined && (group == "" || p.groups[group])
	})
}

// remembered reports whether the person has decided to be asked no more about this.
func (m *model) remembered(p *modelPerson, c testClient, offered access) bool {
	client := m.clients[c.ID]
	return client.recognised && slices.ContainsFunc(p.memory[c.ID], func(d modelMemory) bool {
		if d.about != client.states || !d.until.IsZero() && !m.now().Before(d.until) {
			return false
		}
		return d.access.where(func(uri, _ string) bool { return !m.endedSince(uri, d.at) }).contains(offered)
	})
}

// remember notes an answer to a page: what was refused is forgotten, and the rest kept as chosen.
func (m *model) remember(p *modelPerson, c testClient, offered, allowed access, choice string) {
	d := modelMemory{access: allowed, at: m.now(), about: m.clients[c.ID].states}
	refused := offered.where(func(uri, scope string) bool { return !allowed.has(uri, scope) })
	var kept []modelMemory
	for _, old := range p.memory[c.ID] {
		old.access = old.access.where(func(uri, scope string) bool { return !refused.has(uri, scope) })
		if choice == "once" || !allowed.contains(old.access) && old.about == d.about {
			kept = append(kept, old)
		}
	}
	switch choice {
	case "day":
		d.until = m.now().Add(24 * time.Hour)
		kept = append(kept, d)
	case "always":
		kept = append(kept, d)
	}
	p.memory[c.ID] = kept
}

// dead reports whether a grant is over for good.
func (m *model) dead(g *modelGrant) bool {
	p := m.people[g.person]
	return g.over || p.incarnation != g.of || !p.canSignIn()
}

// inTime reports whether the code or the refresh token of a grant is still good by the clock.
func (m *model) inTime(g *modelGrant) bool {
	if !g.redeemed {
		return m.now().Before(g.at.Add(time.Minute))
	}
	return m.now().Before(g.idle) && m.now().Before(g.ends)
}

// left is what a grant is good for now.
func (m *model) left(g *modelGrant) access {
	kept := g.allowed.where(func(uri, _ string) bool { return !g.ended[uri] })
	return m.mayHave(m.people[g.person], kept, g.at)
}

// expectToken says which token a request of a grant gets at a resource, nil for none. Without a resource
// it is that of the first token, and before it the only one.
func (m *model) expectToken(g *modelGrant, at string) *modelToken {
	if at == "" {
		at = g.audience
		if at == "" && len(g.allowed) == 1 {
			at = slices.Collect(maps.Keys(g.allowed))[0]
		}
	}
	scopes, ok := m.left(g)[at]
	if !ok || m.dead(g) || !m.inTime(g) || !m.clients[g.client.ID].usable() {
		return nil
	}
	return &modelToken{grant: g, at: at, scopes: slices.Sorted(slices.Values(scopes))}
}

// expectActive says what a resource server learns about a token.
func (m *model) expectActive(token *modelToken, uri string) (scopes []string, active bool) {
	here, ok := m.left(token.grant)[uri]
	if !ok || uri != token.at || m.dead(token.grant) || !m.now().Before(token.ends) {
		return nil, false
	}
	for _, scope := range token.scopes {
		if slices.Contains(here, scope) {
			scopes = append(scopes, scope)
		}
	}
	return scopes, true
}

// end ends the grants that fit.
func (m *model) end(fits func(*modelGrant) bool) {
	for _, g := range m.grants {
		g.over = g.over || fits(g)
	}
}
