//go:build e2e

package faults

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
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
	heirs    []*heir
	absence  time.Duration // the longest from the loss of a primary until everything worked

	mu          sync.Mutex
	lost, named time.Time       // when there was no primary in this round
	issued      map[string]span // when a code was asked for and heard of
}

// lag is how two replicas fall behind, by the ways on which they hear the primary. Which of
// them is the one is chosen anew each time.
type lag struct {
	name  string
	begin func(one, other *redistest.Proxy)
}

// lags leave somebody to confirm writes in time, or nobody. There are seven, so that each
// meets each loss.
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

// loss is how a primary goes, and how it comes back.
type loss struct {
	name   string
	strike func(*redistest.Server)
	// sunk says that what is on the ways to the replicas at that moment is lost as well.
	sunk bool
	back func(*redistest.Sentinels, *redistest.Server)
}

// losses: who was stopped comes back as a primary, with everything that it was sent and has
// not read, until the sentinels see it.
var losses = []loss{
	{"stopped", (*redistest.Server).Pause, true, func(_ *redistest.Sentinels, old *redistest.Server) { old.Resume() }},
	{"killed", (*redistest.Server).Kill, true, (*redistest.Sentinels).Rejoin},
	{"stopped, but heard", (*redistest.Server).Pause, false, func(_ *redistest.Sentinels, old *redistest.Server) { old.Resume() }},
}

// TestFailoversUnderLoad: whatever the replicas have heard when the primary is lost, what
// was acknowledged is there when one of them has taken over, and no code gives tokens
// twice. In between everybody is served or told 503. A code from before gives nothing
// afterwards, unless it has given its tokens; that, and a page in progress that is
// forgotten, is all that anybody notices.
func TestFailoversUnderLoad(t *testing.T) {
	s := newSuccession(t, 2)
	rounds := amount(3, 21)
	for i := range rounds {
		s.fail(lags[i%len(lags)], losses[i%len(losses)])
		if t.Failed() {
			return
		}
	}
	t.Logf("%d failovers; everything worked at most %s after the sentinels named a primary, %s after the one before was lost; answers %v",
		rounds, s.longest.Round(time.Millisecond), s.absence.Round(time.Millisecond), s.answers)
}

// fail is one round: a load, a lag, a loss, a return, and a look at all that was promised.
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

// divert leads each replica around by a way of its own, in any order.
func (s *succession) divert() (ways [2]*redistest.Proxy) {
	s.t.Helper()
	for i, at := range s.random.Perm(len(ways)) {
		ways[at] = redistest.StartProxy(s.t, s.primary.Addr)
		s.replicas[i].Replicate(s.primary, ways[at].Addr)
	}
	s.group.Settle(len(s.replicas))
	return ways
}

// release lets the sentinels lead replicas to the next primary.
func (s *succession) release(replicas []*redistest.Server) {
	s.t.Helper()
	for _, r := range replicas {
		if err := r.Client().ACLSetUser(s.t.Context(), "default", "+slaveof").Err(); err != nil {
			s.t.Fatal(err)
		}
	}
}

// work has everybody go to work, until rest.
func (s *succession) work() (rest func()) {
	var busy sync.WaitGroup
	done := make(chan struct{})
	for _, h := range s.heirs {
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

// prepare has a load going, and returns what the requests of a salvo need.
func (s *succession) prepare() (families [volley]*held) {
	s.t.Helper()
	client, v := s.insist(0, s.register).Client, s.newVisitor(personName)
	s.insist(0, func(at *process) answer { return s.consent(at, v, client) }) // who is signed in then
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

// lose notes when the primary is lost.
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

// recovers expects that everything works soon at both processes. The time is counted from
// the moment at which a majority of the sentinels names another primary: how long they take
// to find one is a setting of theirs.
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

// works goes from a registration to a revocation at one process.
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

// consents is a consent that notes when it was.
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

// between reports whether a span and the time without a primary have something in common.
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

// fate is that of a family under failovers. A code from before the takeover gives no tokens
// any more, whoever heard what; one from the time in between may be from before.
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

// settle looks at everything that was promised in a round.
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

// heir is a worker who knows what does not outlive a primary.
type heir struct {
	*worker
	succession *succession
}

// work does what there is to do until done.
func (h *heir) work(done chan struct{}) {
	for {
		select {
		case <-h.ctx.Done():
			return
		case <-done:
			return
		case <-h.rounds:
			h.round()
		}
	}
}

func (h *heir) round() {
	switch n := h.random.IntN(100); {
	case n < 15:
		h.registers()
	case n < 30:
		h.races()
	default:
		h.uses()
	}
}

// consents returns what the client holds after a consent, or nil. A page that was in
// progress when the primary was lost may have been forgotten.
func (h *heir) consents() *held {
	for {
		a := h.certainly(func(at *process) answer { return h.succession.consents(at, h.visitor, h.client) })
		switch {
		case a.Code != "":
			return &held{client: h.client, code: a.Code}
		case !expired(a) || !h.succession.between(span{a.Began, a.Began.Add(a.Took)}):
			h.wrong("a consent", a)
			return nil
		}
	}
}

// uses is a family from the consent to its end, if it has one.
func (h *heir) uses() {
	f := h.consents()
	if f == nil || h.chance(8) || !h.redeems(f) {
		return
	}
	for range h.random.IntN(4) {
		if !h.rotates(f) {
			return
		}
	}
	h.mustLive(f)
	switch h.random.IntN(5) {
	case 0:
		h.revokes(f)
	case 1:
		h.revokesAmongRefreshes(f)
	case 2:
		h.replays(f)
	}
}

// redeems redeems a code that nobody else has.
func (h *heir) redeems(f *held) (tokens bool) {
	a, doubt := h.tries(func(at *process) answer { return h.redeem(at, opRedeem, f) })
	switch {
	case succeeded(a):
		f.tokens = a
		return true
	case a.invalidGrant() && doubt, h.succession.outlived(f, a):
	case a.certain():
		h.wrong("the only redemption of a code", a)
	}
	return false
}

// races redeems a code a few times at once.
func (h *heir) races() {
	f := h.consents()
	if f == nil {
		return
	}
	answers := make([]answer, 2+h.random.IntN(3))
	crowd(len(answers), len(answers), func(i int) { answers[i] = h.redeem(h.at[i%len(h.at)].process, opRace, f) })
	for _, a := range answers {
		if a.certain() && !tokensOrInvalidGrant(a) {
			h.wrong("a redemption among others", a)
		}
	}
	won := only(answers, granted)
	if len(won) > 1 {
		h.wrong(fmt.Sprintf("%d redemptions of one code succeeded, one of them", len(won)), won[0])
	}
	if len(won) == 1 && h.chance(2) {
		f.tokens = won[0]
		h.replays(f)
	}
}

// begin is the begin of a round.
func (s *succession) begin() {
	s.journal = newJournal(s.t)
	s.lost, s.named, s.issued = time.Time{}, time.Time{}, map[string]span{}
}

// TestPrimaryServesAlone: when all replicas are gone for good, nobody could take over, so
// writes wait for nobody. Who was told 503 until that was known has lost nothing.
func TestPrimaryServesAlone(t *testing.T) {
	s := newSuccession(t, 2)
	s.begin()
	rest := s.work()
	s.ripen()
	for _, r := range s.replicas {
		r.Kill()
	}
	s.named = time.Now()
	s.more(60)
	s.recovers()
	s.ripen()
	rest()
	s.settle("the replicas are gone", s.named)
	t.Logf("the primary served alone after %s", s.longest.Round(time.Millisecond))
}

// TestFailoverForgets: the primary is lost together with the replica that confirmed its
// last writes, and the other replica takes over, which has not heard of them. Nobody believes
// it until the two have been waited for. Then it serves alone, and no code gives tokens a second time, nor for the first time; clients go on with
// refresh tokens of which it knows the family, unless it has forgotten more than eight of
// its rotations.
func TestFailoverForgets(t *testing.T) {
	s := newSuccession(t, 2, "?wait-for-missing=2s")
	s.begin()
	p := s.fleet.newParty(s.at[0].process)
	codes := p.mustCodes(s.at[0].process, 4)
	var families []answer
	for range 10 {
		families = append(families, p.mustTokens(s.at[1].process))
	}
	s.mustHave(len(s.replicas))
	way := redistest.StartProxy(t, s.primary.Addr)
	s.replicas[0].Replicate(s.primary, way.Addr)
	s.group.Settle(len(s.replicas))
	way.Latency(redistest.Replies, forever, 0)
	s.serveAgain() // without the one that hears nothing any more

	var spent []answer
	for _, code := range codes[1:] {
		spent = append(spent, must(t, "tokens", p.redeem(s.at[0].process, code), succeeded))
	}
	for missing := range families { // each has one more of them than the one before
		for i := range missing {
			families[missing] = must(t, "rotated", p.refresh(s.at[i%2].process, families[missing].Refresh), succeeded)
		}
	}
	s.mustHave(1)
	old, confirmed := s.primary, s.replicas[1]
	s.lose(func() { old.Kill(); confirmed.Kill() })
	s.release(s.replicas[:1])
	s.succeed(old)
	s.recovers()
	s.mustHaveForgotten(p, codes, spent, families)
	s.group.Rejoin(old)
	s.group.Rejoin(confirmed)
	s.group.Settle(len(s.replicas))
	s.recovers()
	s.mustHaveForgotten(p, codes, spent, nil)
}

// serveAgain waits until everybody's writes are acknowledged.
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

// mustHave waits until so many replicas have everything.
func (s *succession) mustHave(replicas int) {
	s.t.Helper()
	if n, err := s.primary.Client().Wait(s.t.Context(), replicas, patience).Result(); int(n) < replicas {
		s.t.Fatalf("%d of %d replicas have everything: %v", n, replicas, err)
	}
}

// mustHaveForgotten expects of codes that they give nothing, of the tokens that some of them
// gave that they are as unknown as those, and that families go on. Each of these has lost
// one more rotation than the one before.
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
