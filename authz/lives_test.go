package authz_test

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"gatehouse.example/authz"
	"gatehouse.example/authz/admin"
	"gatehouse.example/storage"
)

var (
	livesMany = flag.Int("lives", 16, "how many random lives TestLives lives")
	livesSeed = flag.Uint64("lives.seed", 1, "the first of them")
)

// livesSteps is how much happens in one life.
const livesSteps = 80

// TestLives: people, clients and operators act at random, one after the other, at two servers over one
// store. A plain model of the rules (livesmodel_test.go) says each time what must come of it: which page a
// person sees and what is on it, whether a code or a refresh token gives a token and with which scopes,
// what each resource server learns about each token, and what the lists of people and operators show.
func TestLives(t *testing.T) {
	t.Parallel()
	for seed := *livesSeed; seed < *livesSeed+uint64(*livesMany); seed++ {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			l := newLife(t, seed)
			for range livesSteps {
				l.step()
				l.everyTokenAgrees()
				if l.random.IntN(5) == 0 {
					l.listsAgree()
				}
				if t.Failed() {
					t.Fatalf("go test ./authz -run '^TestLives$' -lives 1 -lives.seed %d; what happened:\n%s", seed, strings.Join(l.story, "\n"))
				}
			}
		})
	}
}

// life is two servers and the model beside them.
type life struct {
	*model
	t       *testing.T
	h       *harness
	servers []*authz.Server // over one store
	random  *rand.Rand
	story   []string
}

func newLife(t *testing.T, seed uint64) *life {
	l := &life{t: t, random: rand.New(rand.NewPCG(seed, 20)), model: newModel()}
	l.h = newHarness(t, setup{config: func(c *authz.Config) { l.configure(c) }})
	l.now = l.h.clock.Now
	for _, group := range livesGroups {
		_, err := admin.AddGroup(t.Context(), l.h.store, group)
		l.must(err)
	}
	for name, p := range l.people {
		if name != personName {
			l.h.addPerson(name)
		}
		for group := range p.groups {
			l.must(admin.JoinGroup(t.Context(), l.h.store, group, name))
		}
		for range 2 {
			p.browsers = append(p.browsers, &modelBrowser{browser: l.h.newBrowser(), of: p})
		}
	}
	for _, id := range []string{wiki, tenantPattern} {
		l.h.add(authz.NewResource{Resource: l.entries[id].configured(id)})
	}
	l.h.clock.advance(seen)
	l.servers = append(l.servers, l.h.handler.Load())
	l.h.restart()
	l.servers = append(l.servers, l.h.handler.Load())
	return l
}

// configure sets what the model says of the resources of the configuration.
func (l *life) configure(c *authz.Config) {
	c.Resources = nil
	for _, uri := range []string{notes, tasks} {
		c.Resources = append(c.Resources, l.entries[uri].configured(uri))
	}
	c.AccessTokenTTL = livesAccess
}

// deed is something that may happen, the more often the greater its weight. It returns false if it
// cannot happen now.
type deed struct {
	weight int
	do     func() bool
}

func (l *life) deeds() []deed {
	return []deed{
		// What people do with their browsers (livespeople_test.go).
		{30, l.authorize}, {12, l.answerLater},
		{3, l.endApplication}, {3, l.endGrant}, {1, l.endAll}, {2, l.forget},
		{3, l.signOut}, {2, l.endSession}, {2, l.endOtherSessions}, {2, l.changeOwnPassword},
		// What clients do (livesclients_test.go).
		{25, l.redeem}, {25, l.refresh}, {2, l.replayCode}, {3, l.replayRefresh}, {2, l.revokeRefresh}, {3, l.revokeAccess}, {3, l.stranger},
		// What operators do (livesoperators_test.go).
		{10, l.changeGroup}, {1, l.disablePerson}, {1, l.removePerson}, {2, l.changePassword},
		{1, l.disableClient}, {1, l.removeClient}, {2, l.vouch}, {1, l.rename},
		{4, l.switchResource}, {4, l.removeResource}, {3, l.replaceResource}, {4, l.reload},
		{2, l.revokeGrants}, {1, l.rotateKeys}, {2, l.restart}, {2, l.chores}, {12, l.wait},
	}
}

// step lets one thing happen, at one of the servers.
func (l *life) step() {
	l.t.Helper()
	var chances []func() bool
	for _, d := range l.deeds() {
		chances = append(chances, slices.Repeat([]func() bool{d.do}, d.weight)...)
	}
	for {
		l.h.handler.Store(pick(l.random, l.servers))
		if pick(l.random, chances)() {
			return
		}
	}
}

func (l *life) tell(format string, args ...any) {
	l.story = append(l.story, l.now().Format("Jan _2 15:04:05 ")+fmt.Sprintf(format, args...))
}

func (l *life) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatalf("%v\n%s", err, strings.Join(l.story, "\n"))
	}
}

// noticed lets all servers see what an operator changed.
func (l *life) noticed(err error) {
	l.t.Helper()
	l.must(err)
	l.h.clock.advance(seen)
}

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

// some returns a part of a list that is not empty, in its order.
func some[T any](r *rand.Rand, from []T) []T {
	keep := 1 + r.IntN(1<<len(from)-1)
	var out []T
	for i, v := range from {
		if keep&(1<<i) != 0 {
			out = append(out, v)
		}
	}
	return out
}

func (l *life) somebody() (string, *modelPerson) {
	name := pick(l.random, slices.Sorted(maps.Keys(l.people)))
	return name, l.people[name]
}

func (l *life) someClient() (testClient, *modelClient) {
	id := pick(l.random, slices.Sorted(maps.Keys(l.clients)))
	return testClients()[strings.TrimSuffix(id, "-client")], l.clients[id]
}

// someGrant returns one of the grants that fit, most often the latest; nil for none.
func (l *life) someGrant(fits func(*modelGrant) bool) *modelGrant {
	var fit []*modelGrant
	for _, g := range l.grants {
		if fits(g) {
			fit = append(fit, g)
		}
	}
	switch {
	case len(fit) == 0:
		return nil
	case l.random.IntN(3) > 0:
		return fit[len(fit)-1]
	}
	return pick(l.random, fit)
}

// everyTokenAgrees asks resource servers about the latest tokens, and some of the others.
func (l *life) everyTokenAgrees() {
	l.t.Helper()
	for i, token := range l.tokens {
		if i < len(l.tokens)-6 && l.random.IntN(8) > 0 {
			continue
		}
		l.tokenAgrees(token, token.at)
		if l.random.IntN(3) == 0 {
			l.tokenAgrees(token, pick(l.random, livesResources))
		}
	}
}

func (l *life) tokenAgrees(token *modelToken, uri string) {
	l.t.Helper()
	secret, known := l.credential(uri)
	answer := l.h.introspectAs(uri, secret, token.text)
	if !known {
		if answer.status != http.StatusUnauthorized {
			l.t.Errorf("%s introspects, which nobody can use: %s", uri, answer)
		}
		return
	}
	scopes, active := l.expectActive(token, uri)
	m := answer.json(l.t)
	if m["active"] != active {
		l.t.Errorf("%s learns of a token of %s and %s for %s that it is active: %v, want %v", uri, token.grant.person, token.grant.client.ID, token.at, m["active"], active)
		return
	}
	if got, _ := m["scope"].(string); active && !slices.Equal(slices.Sorted(slices.Values(strings.Fields(got))), scopes) {
		l.t.Errorf("%s learns of the scopes %q, want %v", uri, got, scopes)
	}
}

// listsAgree compares the operator's list of the grants of each person, and the page on which people see
// which applications act for them, with the model.
func (l *life) listsAgree() {
	l.t.Helper()
	for name, p := range l.people {
		states, onPage := map[string]storage.GrantState{}, []string(nil)
		for g, err := range admin.Grants(l.t.Context(), l.h.store, admin.GrantFilter{User: name}) {
			l.must(err)
			states[g.ID] = g.State
		}
		in := p.signedIn(l.now())
		for _, w := range in {
			onPage = w.open(l.h.issuer + "/account/applications").buttons("end-application")
			if n := len(w.open(l.h.issuer + "/account/sessions").buttons("end")); n != len(in) {
				l.t.Errorf("the page of %s shows %d sessions, want %d", name, n, len(in))
			}
		}
		for _, g := range l.grants {
			if g.person != name || g.of != p.incarnation {
				continue
			}
			alive := g.redeemed && !l.dead(g) && l.inTime(g)
			state, listed := states[g.id()]
			if alive && state != storage.GrantActive || l.dead(g) && listed && state != storage.GrantRevoked {
				l.t.Errorf("the operator's list says of a grant of %s and %s that it is %q; is it alive: %t", name, g.client.ID, state, alive)
			}
			if len(in) > 0 && alive && !slices.Contains(onPage, g.client.ID) {
				l.t.Errorf("the page of %s does not show %s", name, g.client.ID)
			}
		}
		for _, id := range onPage {
			if !slices.ContainsFunc(l.grants, func(g *modelGrant) bool { return g.person == name && g.client.ID == id && !l.dead(g) }) {
				l.t.Errorf("the page of %s shows %s, which has nothing", name, id)
			}
		}
	}
}

func (l *life) wait() bool {
	d := pick(l.random, []time.Duration{time.Second, 20 * time.Second, time.Minute, 9 * time.Minute, 10 * time.Minute, time.Hour, 2 * time.Hour, 25 * time.Hour})
	if l.random.IntN(20) == 0 {
		d = pick(l.random, []time.Duration{29 * 24 * time.Hour, 31 * 24 * time.Hour})
	}
	l.tell("%s pass", d)
	l.h.clock.advance(d)
	return true
}
