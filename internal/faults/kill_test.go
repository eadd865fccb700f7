//go:build e2e

package faults

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gatehouse.example/storage/redis/redistest"
)

// killSeed repeats the choices of a test that kills, though not their moments.
var killSeed = flag.Uint64("faults.seed", 0, "the seed of what is killed when, 0 for a new one")

// recoveryTime is how long it may take until everything works again.
const recoveryTime = 10 * time.Second

// siege is a load on two processes and a store that writes to disk before it answers, and the
// functions that kill them.
type siege struct {
	*load
	redis  *redistest.Server // the store, if it is one server
	seed   uint64
	random *rand.Rand
	kills  int
	// longest is the longest time from the start of a killed process until everything worked.
	longest time.Duration
}

// newSiege returns a siege of one Redis, under load.
func newSiege(t *testing.T) *siege {
	t.Helper()
	redis := redistest.Start(t, redistest.Config{Persistent: true})
	s := siegeOf(t, redis.URL())
	s.redis = redis
	s.begin(s.seed)
	return s
}

// siegeOf returns a siege of a store before its load begins.
func siegeOf(t *testing.T, store string) *siege {
	t.Helper()
	chosen := cmp.Or(*killSeed, rand.Uint64())
	t.Logf("-faults.seed=%d", chosen)
	return &siege{load: newLoad(t, store), seed: chosen, random: rand.New(rand.NewPCG(chosen, loadWorkers))}
}

// ripen returns at a random moment of a load that goes on for some time.
func (s *siege) ripen() {
	s.t.Helper()
	s.more(80)
	s.awaitAnswers(10 + s.random.IntN(100))
	s.pause(30 * time.Millisecond)
}

// awaitAnswers returns when the load has received so many more answers that promise something.
func (s *siege) awaitAnswers(answers int) {
	s.t.Helper()
	wanted := s.journal.count.Load() + int64(answers)
	eventually(s.t, patience, func() error {
		if s.t.Failed() {
			s.t.FailNow()
		}
		if n := s.journal.count.Load(); n < wanted {
			return fmt.Errorf("the load stands still: %d answers, want %d", n, wanted)
		}
		return nil
	})
}

// pause waits for a random time.
func (s *siege) pause(most time.Duration) { <-time.After(time.Duration(s.random.Int64N(int64(most)))) }

// volley is how many requests are under way at a kill, besides the load.
const volley = 16

// strike kills at a random moment of a load that goes on, while a volley of requests is on its
// way to both processes, each about a family of its own. The journal decides about those
// families.
func (s *siege) strike(kill func()) {
	s.t.Helper()
	var families [volley]*held
	client, v := s.insist(0, s.register).Client, s.newVisitor(personName)
	s.insist(0, func(at *process) answer { return s.consent(at, v, client) }) // so that v is signed in
	crowd(volley/4, volley, func(i int) { families[i] = s.aim(i, client, v) })
	s.ripen()
	var wg sync.WaitGroup
	wg.Go(func() { crowd(volley, volley, func(i int) { s.fire(i, families[i]) }) })
	s.pause(8 * time.Millisecond)
	kill()
	wg.Wait()
}

// aim prepares the i-th request of a volley.
func (s *siege) aim(i int, client string, v *visitor) *held {
	h := &held{client: client, code: s.insist(i, func(at *process) answer { return s.consent(at, v, client) }).Code}
	if i%4 > 0 {
		h.tokens = s.insist(i, func(at *process) answer { return s.redeem(at, opRedeem, h) })
	}
	return h
}

// fire sends it once.
func (s *siege) fire(i int, h *held) {
	at := s.at[i/4%len(s.at)].process
	var a answer
	ok := succeeded
	switch i % 4 {
	case 0:
		a = s.redeem(at, opRedeem, h)
	case 1:
		a = s.refresh(at, h, h.tokens.Refresh)
	case 2:
		a = s.revoke(at, h, h.tokens.Refresh)
	case 3:
		a, ok = s.redeem(at, opReplay, h), answer.invalidGrant
	}
	if a.certain() && !ok(a) {
		s.wrong("in a volley", a)
	}
}

// TestRedisIsKilledUnderLoad: whatever Redis was doing when it was killed, it comes back with all
// acknowledged writes, and no token was handed out twice. Meanwhile the processes answer 503, and
// afterwards they go on by themselves.
func TestRedisIsKilledUnderLoad(t *testing.T) {
	s := newSiege(t)
	for range amount(3, 50) {
		s.killRedis()
	}
	s.end()
	s.redis.Restart()
	s.settle()
}

// TestAuthzIsKilledUnderLoad: a process that is killed at any moment has promised nothing that
// the other one does not keep. The other one serves meanwhile, and the first one serves again
// when it is started again. In the long run Redis is killed at the same moment now and then.
func TestAuthzIsKilledUnderLoad(t *testing.T) {
	s := newSiege(t)
	for range amount(3, 50) {
		s.killAuthz()
	}
	for range amount(0, 10) {
		s.killBoth()
	}
	s.end()
	for _, m := range s.at {
		m.kill()
		m.start(t, m.flags...)
	}
	s.settle()
}

// killRedis kills Redis, checks the answers of the processes, starts it again and waits until
// they work. Now and then it is killed while it reads its files.
func (s *siege) killRedis() {
	s.t.Helper()
	s.kills++
	var stands [2]*stand
	for i, m := range s.at {
		stands[i] = s.stand(m)
	}
	s.strike(s.redis.Kill)
	for i, m := range s.at {
		stands[i].mustBeTurnedAway(m)
	}
	s.pause(200 * time.Millisecond)
	for range s.random.IntN(3) {
		s.kills++
		s.redis.Restart()
		s.pause(20 * time.Millisecond)
		s.redis.Kill()
	}
	s.redis.Restart()
	s.recovers(func() {
		for i, m := range s.at {
			stands[i].mustGoOn(m)
		}
	})
}

// killAuthz kills one process, expects that the other one serves, and starts it again.
func (s *siege) killAuthz() {
	s.t.Helper()
	s.kills++
	i := s.random.IntN(len(s.at))
	victim, other := s.at[i], s.at[1-i]
	before := s.stand(victim)
	s.strike(func() {
		victim.leave()
		victim.kill()
	})
	before.mustGoOn(other)
	after := s.stand(other)
	s.pause(100 * time.Millisecond)
	victim.start(s.t, victim.flags...)
	victim.arrive()
	s.recovers(func() { after.mustGoOn(victim) })
}

// killBoth kills Redis and one process at one moment. The other one goes on by itself.
func (s *siege) killBoth() {
	s.t.Helper()
	s.kills += 2
	i := s.random.IntN(len(s.at))
	victim, other := s.at[i], s.at[1-i]
	before := s.stand(victim)
	s.strike(func() {
		victim.leave()
		var wg sync.WaitGroup
		wg.Go(s.redis.Kill)
		wg.Go(victim.kill)
		wg.Wait()
	})
	before.mustBeTurnedAway(other)
	s.redis.Restart()
	s.recovers(func() { before.mustGoOn(other) })
	after := s.stand(other)
	victim.start(s.t, victim.flags...) // without its store it would have ended
	victim.arrive()
	after.mustGoOn(victim)
}

// recovers expects that everything works soon.
func (s *siege) recovers(works func()) {
	s.t.Helper()
	s.recoversAfter(time.Now(), works)
}

// recoversAfter expects that everything works soon after the moment from which it can.
func (s *siege) recoversAfter(began time.Time, works func()) {
	s.t.Helper()
	works()
	took := time.Since(began)
	s.longest = max(s.longest, took)
	if took > recoveryTime {
		s.t.Errorf("everything works again, after %s", took)
	}
}

// settle checks everything that the journal promises.
func (s *siege) settle() {
	s.t.Helper()
	if s.t.Failed() {
		return
	}
	l := s.journal.read(s.t)
	s.t.Logf("%d kills, at most %s until everything worked", s.kills, s.longest.Round(time.Millisecond))
	s.t.Logf("the slowest answer: %s", s.slowest)
	s.t.Logf("%d promises: %d clients, %d people, %d families %v; answers %v", l.promises, len(l.clients), len(l.people), len(l.families), l.fates(), s.answers)
	for _, contradiction := range l.broken {
		s.t.Error(contradiction)
	}
	var names []string
	for client := range l.clients {
		names = append(names, client)
	}
	crowd(loadWorkers, len(names), func(i int) { s.mustKnow(i, names[i], l.clients[names[i]]) })
	s.mustRemember(l.people)
	families := slices.Collect(maps.Values(l.families))
	crowd(loadWorkers, len(families), func(i int) { s.mustHold(i, families[i], families[i].fate(l.people)) })
}

// mustKnow expects that a registered client can be used.
func (s *siege) mustKnow(i int, client, token string) {
	if a := s.insist(i, func(at *process) answer { return s.registered(at, client, token) }); a.outcome() != granted || a.Client != client {
		s.wrong("the registration "+client, a)
	}
	started := s.insist(i, func(at *process) answer {
		return s.heard(at.call(opPage, newRequest(http.MethodGet, s.party(client).authorizeURL(), "")))
	})
	if started.Status != http.StatusSeeOther {
		s.wrong("a flow of the client "+client, started)
	}
}

// mustRemember expects that all people exist who were added, and that those who were disabled
// cannot sign in.
func (s *siege) mustRemember(people map[string]*person) {
	s.t.Helper()
	out, a := s.command("", "user", "ls", "--json")
	var listed []struct {
		Name     string `json:"name"`
		Disabled bool   `json:"disabled"`
	}
	if err := json.Unmarshal([]byte(out), &listed); err != nil {
		s.t.Fatalf("%s: %v", a, err)
	}
	disabled := map[string]bool{}
	for _, p := range listed {
		disabled[p.Name] = p.Disabled
	}
	var client string
	for name, who := range people {
		is, known := disabled[name]
		if !known || who.disabled && !is || !who.doubt && !who.disabled && is {
			s.t.Errorf("%s was disabled %t; is listed %t, disabled %t", name, who.disabled, known, is)
		}
		if client == "" {
			client = s.insist(0, s.register).Client
		}
		got := s.insist(len(name), func(at *process) answer { return s.consent(at, s.newVisitor(name), client) })
		if (got.Code == "") != is {
			s.t.Errorf("%s is disabled %t, and then: %s", name, is, got)
		}
	}
}

// mustHold expects the state of a family that the journal determines, and that its code is spent
// in the end. It may be redeemed for the first time in this check.
func (s *siege) mustHold(i int, f *kin, want fate) {
	client := s.party(f.client)
	wrong := func(what string, a answer) {
		s.wrong(fmt.Sprintf("a family that should be %s; %s: %s", want, strings.Join(f.told, ", "), what), a)
	}
	redeem := func() answer {
		return s.insist(i, func(at *process) answer { return s.heard(client.redeem(at, f.code)) })
	}
	if f.won > 1 {
		wrong("the code", answer{Op: fmt.Sprintf("%d redemptions", f.won)})
	}
	if f.won == 0 {
		a := redeem()
		if a.outcome() == granted && want != dead {
			f.first, f.access, f.refresh, want = a.Refresh, []string{a.Access}, []string{a.Refresh}, lives
		} else if !a.invalidGrant() || want == lives {
			wrong("a code that gave nothing yet", a)
		}
	}
	if f.first != "" && want != dead {
		s.mustRefresh(i, f, want, wrong)
	}
	if a := redeem(); !a.invalidGrant() {
		wrong("a spent code", a)
	}
	for n, token := range ends(f.access) {
		if a := s.insist(i+n, func(at *process) answer { return s.introspect(at, token) }); a.outcome() != granted || a.Active {
			wrong("an access token in the end", a)
		}
	}
	for n, token := range ends(f.refresh) {
		if a := s.insist(i+n, func(at *process) answer { return s.heard(client.refresh(at, token)) }); !a.invalidGrant() {
			wrong("a refresh token in the end", a)
		}
	}
}

// ends returns the ends of the first and the last of some tokens.
func ends(tokens []string) []string {
	if len(tokens) < 2 {
		return tokens
	}
	return []string{tokens[0], tokens[len(tokens)-1]}
}

// mustRefresh expects that an active family has working access tokens and a working last refresh
// token, which the one before it returns. A family with an unknown state is active as a whole or
// not at all.
func (s *siege) mustRefresh(i int, f *kin, want fate, wrong func(string, answer)) {
	last, before := f.last()
	refresh := func(token string) answer {
		i++
		return s.insist(i, func(at *process) answer { return s.heard(s.party(f.client).refresh(at, token)) })
	}
	if before != "" {
		if a := refresh(before); a.Refresh != last && (want == lives || !a.invalidGrant()) {
			wrong("the refresh token before the last one", a)
		}
	}
	a := refresh(last)
	if a.outcome() != granted && (want == lives || !a.invalidGrant()) {
		wrong("the last refresh token", a)
		return
	}
	for n, token := range ends(f.access) {
		if got := s.insist(i+n, func(at *process) answer { return s.introspect(at, token) }); got.Active != (a.outcome() == granted) {
			wrong(fmt.Sprintf("the last refresh token was %s; an access token", a.outcome()), got)
		}
	}
	if a.outcome() != granted {
		return
	}
	f.access, f.refresh = append(f.access, a.Access), append(f.refresh, a.Refresh)
	if again := refresh(last); again.Refresh != a.Refresh {
		wrong("the last refresh token, used again", again)
	}
}
