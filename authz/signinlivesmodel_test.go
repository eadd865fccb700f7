package authz_test

import (
	"maps"
	"slices"
	"strings"
	"time"

	"gatehouse.example/storage"
)

// signer is what the rules know of a person who signs in.
type signer struct {
	incarnation int
	disabled    bool
	password    string // "" for none
	factor      []byte // the key of the app, nil for none
	recovery    []string
	passkeys    []*key
	accounts    map[string]bool // at providers
	ended       int             // how often all sessions of the person ended, and the sign-ins under way
}

// ofProvider reports whether a person came from a provider, and so has nothing else to sign in with.
func ofProvider(name string) bool { return strings.Contains(name, "/") }

// withPasskey is how a session began with a passkey: then a person need not know the password to change it.
const withPasskey = "a passkey"

// window is a browser, and who is signed in with it.
type window struct {
	*browser
	who         string // "" for nobody
	since, seen time.Time
	account     string // with which account at a provider, or withPasskey; "" with a password
}

// signInGrant is what a person allowed.
type signInGrant struct {
	who string
	of  int
	id  string

	revoked bool
}

// signInToken is what the company knows of an account, and when it is asked again.
type signInToken struct {
	due       time.Time
	forgotten bool
}

// link is a one-time link, with which somebody chooses how to sign in.
type link struct {
	address, who string
	until        time.Time
	over         bool
}

// signInModel is what a plain reading of the rules about sign-ins knows.
type signInModel struct {
	now         func() time.Time
	people      map[string]*signer
	windows     []*window
	grants      []*signInGrant
	passwords   bool // they are used
	other       bool // the provider of that name is configured
	idle, limit time.Duration
	links       []*link
	tokens      map[string]*signInToken // by account at the company
}

func newSignInModel() *signInModel {
	m := &signInModel{people: map[string]*signer{}, passwords: true, other: true, idle: 2 * time.Hour, limit: 12 * time.Hour, tokens: map[string]*signInToken{}}
	for _, name := range []string{personName, "writer"} {
		m.people[name] = &signer{password: personPassword, accounts: map[string]bool{}}
	}
	return m
}

// live reports whether somebody is signed in with a browser.
func (m *signInModel) live(w *window) bool {
	return w.who != "" && m.now().Before(w.seen.Add(m.idle)) && m.now().Before(w.since.Add(m.limit))
}

// recent reports whether somebody signed in with it a short time ago, and may change how they sign in.
func (m *signInModel) recent(w *window) bool {
	return m.live(w) && !m.now().After(w.since.Add(10*time.Minute))
}

// signOut ends the sessions that fit.
func (m *signInModel) signOut(fits func(*window) bool) {
	for _, w := range m.windows {
		if fits(w) {
			w.who = ""
		}
	}
}

// elsewhere ends the other sessions of the person of a browser.
func (m *signInModel) elsewhere(here *window) {
	m.ended(here.who)
	m.signOut(func(w *window) bool { return w != here && w.who == here.who })
}

// leave ends the sessions and links of a person.
func (m *signInModel) leave(name string) {
	m.ended(name)
	m.signOut(func(w *window) bool { return w.who == name })
	for _, l := range m.links {
		l.over = l.over || l.who == name
	}
}

// ended ends the sign-ins of a person that are under way.
func (m *signInModel) ended(name string) { m.people[name].ended++ }

// owner returns whom an account at a provider leads to, "" for nobody.
func (m *signInModel) owner(account string) string {
	for name, p := range m.people {
		if p.accounts[account] {
			return name
		}
	}
	return ""
}

// configured reports whether the provider of an account is configured.
func (m *signInModel) configured(account string) bool {
	return m.other || !strings.HasPrefix(account, "other/")
}

// usable returns the accounts at providers with which a person can sign in now.
func (m *signInModel) usable(p *signer) (accounts []string) {
	for account := range p.accounts {
		if m.configured(account) {
			accounts = append(accounts, account)
		}
	}
	return accounts
}

// ways is in how many ways a person can sign in now.
func (m *signInModel) ways(p *signer) int {
	n := len(p.passkeys) + len(m.usable(p))
	if p.password != "" && m.passwords {
		n++
	}
	return n
}

// expectGrant says what becomes of a grant.
func (m *signInModel) expectGrant(g *signInGrant) storage.GrantState {
	p := m.people[g.who]
	switch {
	case p == nil || p.incarnation != g.of:
		return "" // it went with the person
	case p.disabled, g.revoked:
		return storage.GrantRevoked
	}
	return storage.GrantActive
}

func (m *signInModel) names() []string { return slices.Sorted(maps.Keys(m.people)) }
