//go:build e2e

package faults

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"gatehouse.example/storage/redis/redistest"
)

// succession is a siege of a group of Redis: one primary after the other is lost in the
// middle of the load, while the replicas lag, and a replica takes over.
type succession struct {
	*siege
	group    *redistest.Sentinels
	divided  *redistest.DivisibleSentinels // if the group can be divided
	primary  *redistest.Server
	replicas []*redistest.Server
	staff    []*successionWorker
	absence  time.Duration // the longest from the loss of a primary until everything worked

	mu          sync.Mutex
	lost, named time.Time       // when there was no primary in this round
	issued      map[string]span // when a code was asked for and received
}

// lag is how two replicas fall behind, by faults on the connections to the primary. Which of them
// is which is chosen anew each time.
type lag struct {
	name  string
	begin func(one, other *redistest.Proxy)
}

// lags leave a replica to confirm writes in time, or none. There are seven, so that each meets
// each loss.
var lags = []lag{
	{"one hears nothing", func(one, _ *redistest.Proxy) { one.Latency(redistest.Replies, forever, 0) }},
	{"both hear late", func(one, other *redistest.Proxy) {
		one.Latency(redistest.Replies, 200*time.Millisecond, 100*time.Millisecond)
		other.Latency(redistest.Replies, 300*time.Millisecond, 100*time.Millisecond)
	}},
	{"both hear too late", func(one, other *redistest.Proxy) {
		one.Latency(redistest.Replies, 900*time.Millisecond, 0)
		other.Latency(redistest.Replies, 1200*time.Millisecond, 0)
	}},
	{"neither hears anything", func(one, other *redistest.Proxy) {
		one.Latency(redistest.Replies, forever, 0)
		other.Latency(redistest.Replies, forever, 0)
	}},
	{"neither is heard", func(one, other *redistest.Proxy) {
		one.Latency(redistest.Requests, forever, 0)
		other.Latency(redistest.Requests, forever, 0)
	}},
	{"one is not heard, the other hears late", func(one, other *redistest.Proxy) {
		one.Latency(redistest.Requests, forever, 0)
		other.Latency(redistest.Replies, 300*time.Millisecond, 100*time.Millisecond)
	}},
	{"one hears late", func(one, _ *redistest.Proxy) { one.Latency(redistest.Replies, 300*time.Millisecond, 0) }},
}

// loss is how a primary is lost, and how it comes back.
type loss struct {
	name   string
	strike func(*redistest.Server)
	// sunk is set if bytes on the way to the replicas at that moment are lost as well.
	sunk bool
	back func(*redistest.Sentinels, *redistest.Server)
}

// losses: a stopped server comes back as a primary, with all requests that it has received and
// not read, until the sentinels see it.
var losses = []loss{
	{"stopped", (*redistest.Server).Pause, true, func(_ *redistest.Sentinels, old *redistest.Server) { old.Resume() }},
	{"killed", (*redistest.Server).Kill, true, (*redistest.Sentinels).Rejoin},
	{"stopped, but heard", (*redistest.Server).Pause, false, func(_ *redistest.Sentinels, old *redistest.Server) { old.Resume() }},
}

// fail is one round: a load, a lag, a loss, a return, and a check of all promises.
func (s *succession) fail(l lag, x loss) {
	s.t.Helper()
	begun := time.Now()
	s.begin()
	old := s.primary
	ways := s.divert()
	rest := s.work()
	families := s.prepare()
	l.begin(ways[0], ways[1])
	s.more(40)
	s.pause(800 * time.Millisecond)
	s.more(40)
	fired := s.salvo(families)
	s.pause(100 * time.Millisecond)
	before := s.count(unavailable)
	s.lose(func() {
		x.strike(old)
		for _, way := range ways {
			if x.sunk {
				way.Cut()
			}
		}
	})
	s.more(20)
	s.release(s.replicas)
	s.succeed(old)
	s.recovers()
	fired.Wait()
	if s.count(unavailable) == before {
		s.t.Error("nobody was told that there is no primary")
	}
	s.more(60)
	x.back(s.group, old)
	s.group.Settle(len(s.replicas))
	rest()
	for _, way := range ways {
		way.Close()
	}
	s.settle(fmt.Sprintf("%s, the primary is %s, the next one named after %s", l.name, x.name, s.named.Sub(s.lost).Round(time.Millisecond)), begun)
}

// divert connects each replica through a proxy, in any order.
func (s *succession) divert() (ways [2]*redistest.Proxy) {
	s.t.Helper()
	for i, at := range s.random.Perm(len(ways)) {
		ways[at] = redistest.StartProxy(s.t, s.primary.Addr)
		s.replicas[i].Replicate(s.primary, ways[at].Addr)
	}
	s.group.Settle(len(s.replicas))
	return ways
}

// release lets the sentinels redirect replicas to the next primary.
func (s *succession) release(replicas []*redistest.Server) {
	s.t.Helper()
	for _, r := range replicas {
		if err := r.Client().ACLSetUser(s.t.Context(), "default", "+slaveof").Err(); err != nil {
			s.t.Fatal(err)
		}
	}
}

// work starts all workers, until rest.
func (s *succession) work() (rest func()) {
	var busy sync.WaitGroup
	done := make(chan struct{})
	for _, h := range s.staff {
		busy.Add(1)
		s.workers.Go(func() {
			defer busy.Done()
			h.work(done)
		})
	}
	return func() {
		close(done)
		busy.Wait()
		for len(s.rounds) > 0 {
			<-s.rounds
		}
	}
}

// prepare starts a load, and returns the families for the requests of a salvo.
func (s *succession) prepare() (families [volley]*held) {
	s.t.Helper()
	client, v := s.insist(0, s.register).Client, s.newVisitor(personName)
	s.insist(0, func(at *process) answer { return s.consent(at, v, client) }) // so that v is signed in
	began := time.Now()
	crowd(volley/4, volley, func(i int) {
		families[i] = s.aim(i, client, v)
		s.issue(families[i].code, span{began, time.Now()})
	})
	s.ripen()
	return families
}

// salvo is a volley, in which a code may be too old.
func (s *succession) salvo(families [volley]*held) *sync.WaitGroup {
	var fired sync.WaitGroup
	for i, h := range families {
		fired.Go(func() {
			if i%4 > 0 {
				s.fire(i, h)
				return
			}
			a := s.redeem(s.at[i/4%len(s.at)].process, opRedeem, h)
			if a.certain() && !succeeded(a) && !s.outlived(h, a) {
				s.wrong("in a salvo", a)
			}
		})
	}
	return &fired
}

// lose records when the primary is lost.
func (s *succession) lose(strike func()) {
	s.mu.Lock()
	s.lost = time.Now()
	s.mu.Unlock()
	strike()
}

// succeed waits until the sentinels name another primary.
func (s *succession) succeed(old *redistest.Server) {
	s.t.Helper()
	next := s.group.WaitPrimary(s.name(old))
	s.mu.Lock()
	s.named = time.Now()
	s.mu.Unlock()
	for i, r := range s.replicas {
		if s.name(r) == next {
			s.primary, s.replicas[i] = r, old
		}
	}
	if s.primary == old {
		s.t.Fatalf("the sentinels name %s, which is no replica", next)
	}
}

// recovers expects that everything works soon at both processes. The time is counted from the
// moment at which a majority of the sentinels names another primary: how long they take to
// promote one is a setting of theirs.
func (s *succession) recovers() {
	s.t.Helper()
	s.recoversFrom(s.named)
}

// recoversFrom expects the same, counted from another moment.
func (s *succession) recoversFrom(moment time.Time) {
	s.t.Helper()
	s.recoversAt(moment, s.at[:]...)
}

// recoversAt expects the same of some processes.
func (s *succession) recoversAt(moment time.Time, all ...*member) {
	s.t.Helper()
	errs := make([]error, len(all))
	crowd(len(all), len(all), func(i int) {
		v := s.newVisitor(personName)
		for {
			if errs[i] = s.works(all[i].process, v); errs[i] == nil || time.Since(moment) > patience || s.t.Failed() {
				return
			}
			<-time.After(20 * time.Millisecond)
		}
	})
	took := time.Since(moment)
	s.longest = max(s.longest, took)
	if !s.lost.IsZero() {
		s.absence = max(s.absence, time.Since(s.lost))
	}
	if err := errors.Join(errs...); err != nil || took > recoveryTime {
		s.t.Errorf("%s after it could: %v", took, err)
	}
}

// works makes all requests from a registration to a revocation at one process.
func (s *succession) works(at *process, v *visitor) error {
	h := &held{client: s.register(at).Client}
	if h.client == "" {
		return errors.New("nobody can register")
	}
	given := s.consents(at, v, h.client)
	h.code = given.Code
	if h.code == "" {
		return errors.New(given.String())
	}
	first := s.redeem(at, opRedeem, h)
	if !succeeded(first) {
		return errors.New(first.String())
	}
	for what, a := range map[string]answer{"refresh": s.refresh(at, h, first.Refresh), "introspection": s.introspect(at, first.Access)} {
		if !succeeded(a) || a.Active != (what == "introspection") {
			return errors.New(a.String())
		}
	}
	if a := s.revoke(at, h, first.Access); !succeeded(a) {
		return errors.New(a.String())
	}
	if a := s.introspect(at, first.Access); !isDead(a) {
		return errors.New(a.String())
	}
	return nil
}

// consents is a consent that records its time.
func (s *succession) consents(at *process, v *visitor, client string) answer {
	began := time.Now()
	a := s.consent(at, v, client)
	if a.Code != "" {
		s.issue(a.Code, span{began, time.Now()})
	}
	return a
}

func (s *succession) issue(code string, when span) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.issued[code] = when
}

func (s *succession) count(o outcome) int {
	s.load.mu.Lock()
	defer s.load.mu.Unlock()
	return s.answers[o]
}

// between reports whether a span overlaps the time without a primary.
func (s *succession) between(w span) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.lost.IsZero() && w.to.After(s.lost) && (s.named.IsZero() || w.from.Before(s.named))
}

// outlived reports whether a redemption may have been refused because another primary took
// over since the code was asked for.
func (s *succession) outlived(h *held, a answer) bool {
	s.mu.Lock()
	asked := s.issued[h.code].from
	s.mu.Unlock()
	return a.invalidGrant() && s.between(span{asked, a.Began.Add(a.Took)})
}

// fate returns that of a family under failovers. A code from before the takeover gives no tokens
// any more, whatever the answers were; one from the time in between may be from before.
func (s *succession) fate(f *kin) fate {
	when := s.issued[f.code]
	want := f.fate(nil)
	switch {
	case f.won == 0 && when.to.Before(s.lost):
		return dead
	case f.won == 0 && want == lives && s.between(when):
		return open
	}
	return want
}

// settle checks all promises of a round.
func (s *succession) settle(what string, begun time.Time) {
	s.t.Helper()
	if s.t.Failed() {
		return
	}
	l := s.journal.read(s.t)
	fates := map[fate]int{}
	for _, f := range l.families {
		fates[s.fate(f)]++
	}
	worked := time.Since(begun)
	for _, contradiction := range l.broken {
		s.t.Error(contradiction)
	}
	clients := slices.Collect(maps.Keys(l.clients))
	crowd(loadWorkers, len(clients), func(i int) { s.mustKnow(i, clients[i], l.clients[clients[i]]) })
	families := slices.Collect(maps.Values(l.families))
	crowd(loadWorkers, len(families), func(i int) { s.mustHold(i, families[i], s.fate(families[i])) })
	s.t.Logf("%s; %d promises: %d clients, %d families %v; %s, looked at in %s", what,
		l.promises, len(clients), len(families), fates, worked.Round(time.Millisecond), (time.Since(begun) - worked).Round(time.Millisecond))
}

// begin begins a round.
func (s *succession) begin() {
	s.journal = newJournal(s.t)
	s.lost, s.named, s.issued = time.Time{}, time.Time{}, map[string]span{}
}

// serveAgain waits until writes of all workers are acknowledged.
func (s *succession) serveAgain() {
	s.t.Helper()
	for _, at := range s.at {
		eventually(s.t, patience, func() error {
			if a := s.register(at.process); a.Client == "" {
				return errors.New(a.String())
			}
			return nil
		})
	}
}

// mustHave waits until that many replicas have everything.
func (s *succession) mustHave(replicas int) {
	s.t.Helper()
	if n, err := s.primary.Client().Wait(s.t.Context(), replicas, patience).Result(); int(n) < replicas {
		s.t.Fatalf("%d of %d replicas have everything: %v", n, replicas, err)
	}
}

// mustHaveForgotten expects that codes give nothing, that the tokens that some of them gave are
// unknown too, and that families go on. Each of these has lost one more rotation than the one
// before.
func (s *succession) mustHaveForgotten(p *party, codes []string, spent, families []answer) {
	s.t.Helper()
	for _, at := range s.at {
		for _, code := range codes {
			must(s.t, "refused", p.redeem(at.process, code), invalidGrant)
		}
		for _, tokens := range spent {
			mustBeDead(s.t, p, at.process, tokens)
		}
		for missing, tokens := range families {
			if missing > 8 {
				must(s.t, "refused", p.refresh(at.process, tokens.Refresh), invalidGrant)
				mustBeDead(s.t, p, at.process, tokens)
				continue
			}
			next := mustLive(s.t, p, at.process, tokens)
			families[missing] = mustLive(s.t, p, at.process, next)
		}
	}
}
