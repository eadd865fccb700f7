//go:build e2e

package faults

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// pledge is answers to some people while there was a server. Requests check again and again
// whether they are still true, also while the servers change: then 503 is the only other right
// answer.
type pledge struct {
	*succession
	visitor *visitor
	client  string
	near    *member // the process that is asked first, nil for both in turn

	clients   []promise
	revoked   []*held  // families that have ended
	honest    []*held  // families whose tokens were used correctly
	consented []*held  // families that began under the new primary
	before    []string // for each honest family the refresh token before its last one
	spent     []string // for each revoked family the same

	mu     sync.Mutex
	broken map[string]string // the wrong answer, by the promise
}

// pledges is how many there are of each kind.
const pledges = 5

// The kinds of promises.
const (
	keptRegistration = "registrations gone"
	keptRevocation   = "revoked families alive"
	keptFamily       = "honest families dead"
	keptConsent      = "consents gone"
)

// pledge prepares families at the present primary.
func (s *succession) pledge() *pledge {
	s.t.Helper()
	p := &pledge{succession: s, visitor: s.newVisitor(personName), client: s.insist(0, s.register).Client, broken: map[string]string{}}
	p.revoked, p.honest = p.families(), p.families()
	p.spent = p.rotate(p.revoked)
	return p
}

// turn returns which process the i-th request of a kind asks first.
func (p *pledge) turn(i int) int {
	if at := slices.Index(p.at[:], p.near); at >= 0 {
		return at
	}
	return i
}

// families returns new families with tokens.
func (p *pledge) families() (all []*held) {
	p.t.Helper()
	for i := range pledges {
		all = append(all, p.family(i))
	}
	return all
}

// family returns a new family. A code whose redemption was answered with 503 may be spent, so the
// next try uses another one.
func (p *pledge) family(i int) *held {
	p.t.Helper()
	for began := time.Now(); ; i++ {
		h := &held{client: p.client}
		h.code = p.insist(p.turn(i), func(at *process) answer { return p.consents(at, p.visitor, p.client) }).Code
		if h.code == "" {
			p.t.Fatal("no code for a pledge")
		}
		h.tokens = p.redeem(p.at[p.turn(i)%len(p.at)].process, opRedeem, h)
		if h.tokens.Refresh != "" {
			return h
		}
		if h.tokens.certain() && !p.outlived(h, h.tokens) || time.Since(began) > patience {
			p.wrong("tokens for a pledge", h.tokens)
			p.t.FailNow()
		}
	}
}

// rotate uses the refresh tokens of families, which it returns.
func (p *pledge) rotate(all []*held) (before []string) {
	p.t.Helper()
	for i, h := range all {
		before = append(before, h.tokens.Refresh)
		h.tokens = p.insist(p.turn(i), func(at *process) answer { return p.refresh(at, h, before[i]) })
	}
	return before
}

// keep has the present primary acknowledge all kinds: revocations, rotations, registrations and
// consents.
func (p *pledge) keep() {
	p.t.Helper()
	for i, h := range p.revoked {
		p.insist(p.turn(i), func(at *process) answer { return p.revoke(at, h, h.tokens.Refresh) })
	}
	p.rotate(p.honest)
	p.before = p.rotate(p.honest)
	for i := range pledges {
		a := p.insist(p.turn(i), p.register)
		p.clients = append(p.clients, promise{Client: a.Client, Token: registrationToken(a)})
	}
	p.visitor = p.newVisitor(personName) // sessions are not promised
	p.consented = p.families()
}

// ask asks one process about everything. An answer that is not 503 must be right.
func (p *pledge) ask(at *process) {
	for i, c := range p.clients {
		a := p.registered(at, c.Client, c.Token)
		p.hold(keptRegistration, i, a, a.outcome() == granted && a.Client == c.Client)
	}
	for i, h := range p.revoked {
		a := p.introspect(at, h.tokens.Access)
		p.hold(keptRevocation, i, a, isDead(a))
		a = p.refresh(at, h, h.tokens.Refresh)
		p.hold(keptRevocation, i, a, a.invalidGrant())
		a = p.refresh(at, h, p.spent[i]) // inside the window
		p.hold(keptRevocation, i, a, a.invalidGrant())
	}
	for i, h := range p.consented {
		a := p.introspect(at, h.tokens.Access)
		p.hold(keptConsent, i, a, isLive(a))
	}
	for i, h := range p.honest {
		a := p.refresh(at, h, p.before[i]) // inside the window: the token that it gave before
		p.hold(keptFamily, i, a, a.Refresh == h.tokens.Refresh)
		a = p.introspect(at, h.tokens.Access)
		p.hold(keptFamily, i, a, isLive(a))
	}
}

// hold records a wrong answer. A process that is away gives none.
func (p *pledge) hold(kind string, i int, a answer, ok bool) {
	if ok || !a.certain() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if what := fmt.Sprint(kind, " ", i); p.broken[what] == "" {
		p.broken[what] = a.String()
	}
}

// watch has both processes asked again and again, until the returned function is called.
func (p *pledge) watch() (enough func()) {
	return p.meanwhile(len(p.at), 100*time.Millisecond, func(i int) { p.ask(p.at[i].process) })
}

// mustBeKept asks for the last time, when everything works again.
func (p *pledge) mustBeKept() {
	p.t.Helper()
	for _, m := range p.at {
		p.ask(m.process)
	}
	for i, h := range p.honest {
		a := p.insist(p.turn(i), func(at *process) answer { return p.refresh(at, h, h.tokens.Refresh) })
		p.hold(keptFamily, i, a, succeeded(a) && a.Refresh != h.tokens.Refresh)
	}
	for i, h := range p.consented {
		a := p.insist(p.turn(i), func(at *process) answer { return p.refresh(at, h, h.tokens.Refresh) })
		p.hold(keptConsent, i, a, succeeded(a))
	}
	if len(p.broken) == 0 {
		return
	}
	var counts, said []string
	for _, kind := range []string{keptRegistration, keptRevocation, keptFamily, keptConsent} {
		n := 0
		for what, a := range p.broken {
			if strings.HasPrefix(what, kind) {
				n++
				said = append(said, what+": "+a)
			}
		}
		counts = append(counts, fmt.Sprintf("%d of %d %s", n, pledges, kind))
	}
	slices.Sort(said)
	p.t.Errorf("%s\n%s", strings.Join(counts, ", "), strings.Join(said, "\n"))
}
