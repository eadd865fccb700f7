//go:build e2e

package faults

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"gatehouse.example/storage/redis/redistest"
)

const (
	// promisedTime is when every request must have been answered: two seconds, and a margin for a
	// busy machine.
	promisedTime = 2*time.Second + 500*time.Millisecond
	// triedTime is how long one operation of the store may take. A request that needs no store,
	// or finds at once that there is none, does not wait that long.
	triedTime = 700 * time.Millisecond
	// returnTime is how long it may take until requests are served again.
	returnTime = 3 * time.Second
)

// forever is longer than any wait. Bytes with that delay are delivered by Clear.
const forever = time.Hour

// both breaks both directions.
func both(fault func(redistest.Direction)) {
	fault(redistest.Requests)
	fault(redistest.Replies)
}

func hold(d redistest.Direction) func(*site) {
	return func(s *site) { s.proxy.Latency(d, forever, 0) }
}

func reset(d redistest.Direction) func(*site) {
	return func(s *site) { s.proxy.ResetOn(d) }
}

// leave has the senders disconnect while bytes are held back.
func leave(d redistest.Direction) func(*site) {
	return func(s *site) { s.proxy.Latency(d, forever, 0); s.hangUp() }
}

// troubles are the faults of one round trip. A late request has not reached Redis when its sender
// gives up, and reaches it later; a late reply comes when the write has happened.
var troubles = []trouble{
	{name: "one reply late", begin: hold(redistest.Replies), once: true, span: triedTime + 200*time.Millisecond},
	{name: "one request late", begin: hold(redistest.Requests), once: true, span: triedTime + 200*time.Millisecond},
	{name: "one request reset", begin: reset(redistest.Requests), once: true, span: 30 * time.Millisecond},
	{name: "one reply reset", begin: reset(redistest.Replies), once: true, span: 30 * time.Millisecond},
	{name: "replies late", begin: hold(redistest.Replies), span: promisedTime},
	{name: "requests late", begin: hold(redistest.Requests), span: promisedTime},
	{name: "replies reset", begin: reset(redistest.Replies), span: promisedTime},
	{name: "refused", begin: func(s *site) { s.proxy.Cut() }, end: func(s *site) { s.proxy.Restore() }, span: 200 * time.Millisecond},
	{name: "slow replies", begin: func(s *site) { s.proxy.Latency(redistest.Replies, 500*time.Millisecond, 0) }, all: true, span: promisedTime},
	{name: "gone, reply late", begin: leave(redistest.Replies), goes: true, span: 100 * time.Millisecond},
	{name: "gone, request late", begin: leave(redistest.Requests), goes: true, span: 100 * time.Millisecond},
}

// comesBack checks a 503: Retry-After, and JSON for a program or a page for a person.
func (d deed) comesBack(a answer) bool {
	seconds, err := strconv.Atoi(a.RetryAfter)
	right := a.Error == "temporarily_unavailable"
	if d.page {
		right = a.Error == "" && strings.Contains(a.body, "<!doctype html>")
	}
	return a.outcome() == unavailable && err == nil && seconds > 0 && right
}

// fits expects that every answer came in time, and is one of those that are possible: success,
// 503, none for senders that disconnected, or that of the beaten.
func (d deed) fits(t testing.TB, tr trial, said []answer, goes bool) {
	t.Helper()
	for _, a := range said {
		switch a.outcome() {
		case granted:
		case unavailable:
			must(t, "a right 503", a, d.comesBack)
		case unknown:
			must(t, "answered", a, func(answer) bool { return goes })
		default:
			must(t, "a right answer", a, func(a answer) bool { return len(said) > 1 && tr.beaten(a) })
		}
		if a.Took > promisedTime {
			t.Errorf("it took %s: %s", a.Took, a)
		}
	}
}

// inParallel runs tests on sites, each on a free one, and expects that no goroutines are left.
func inParallel(t *testing.T, all []*site, n int, name func(i int) string, run func(t *testing.T, s *site, i int)) {
	t.Helper()
	free := make(chan *site, len(all))
	for _, s := range all {
		mustWork(t, s.as(t), s.process)
		free <- s
	}
	before := quiet(all)
	crowd(len(all), n, func(i int) {
		s := <-free
		defer func() { free <- s }()
		t.Run(name(i), func(t *testing.T) { run(t, s, i) })
	})
	mustCalmDown(t, all, before)
}

// row is a deed in trouble.
type row struct {
	deed
	trouble
}

func (r row) String() string { return r.deed.name + ", " + r.trouble.name }

func rows() (all []row) {
	for _, x := range troubles {
		for _, d := range deeds() { // not many of one kind at a time: passwords are expensive
			if !(x.all && d.page) { // requests of people are bounded by the operation only
				all = append(all, row{d, x})
			}
		}
	}
	return all
}

// TestTroubleOnTheWay: whatever fault hits whichever round trip of a request, it is answered in
// time, and has had one outcome, which is that of the answer.
func TestTroubleOnTheWay(t *testing.T) {
	all := rows()
	inParallel(t, sites(t, 14), len(all), func(i int) string { return all[i].String() }, func(t *testing.T, s *site, i int) {
		for at := 1; all[i].alone(t, s, at) && !all[i].all; at++ {
			if t.Failed() {
				t.Fatalf("at round trip %d", at)
			}
		}
	})
}

// alone does the deed once, with trouble before one of its round trips. It reports whether there
// was such a round trip.
func (r row) alone(t *testing.T, s *site, at int) (struck bool) {
	tr := r.deed.begin(t, s)
	s.warm(t)
	a := s.lay(r.trouble, at)
	said := []answer{tr.try(s.process)}
	s.awaitIdle(t)
	struck = a.lift()
	s.warm(t)
	r.fits(t, tr, said, r.goes)
	if !struck {
		must(t, "a success without trouble", said[0], succeeded)
	}
	tr.judge(t, said)
	return struck
}

// TestTroubleInTheCrowd: many do the same at once, and trouble comes while they do.
func TestTroubleInTheCrowd(t *testing.T) {
	all := rows()
	inParallel(t, sites(t, 6), len(all), func(i int) string { return all[i].String() }, func(t *testing.T, s *site, i int) {
		every := amount(4*all[i].atOnce, 3)
		for at := 1 + i*7%every; at <= 4*all[i].atOnce; at += every {
			all[i].crowded(t, s, at)
		}
	})
}

// crowded does the deed many times at once, with trouble from one round trip on.
func (r row) crowded(t *testing.T, s *site, at int) {
	tr := r.deed.begin(t, s)
	s.warm(t)
	a := s.lay(r.trouble, at)
	said := make([]answer, r.atOnce)
	done := make(chan struct{})
	go func() {
		defer close(done)
		crowd(r.atOnce, r.atOnce, func(i int) { said[i] = tr.try(s.process) })
	}()
	select {
	case <-done:
	case <-a.struck:
		select {
		case <-done:
		case <-time.After(r.span):
		}
	}
	a.lift()
	<-done
	s.awaitIdle(t)
	s.warm(t)
	r.fits(t, tr, said, r.goes)
	tr.judge(t, said)
}

// TestLateWritesChangeNothing: a write whose request was answered with 503 reaches Redis only
// after another write. It is too late.
func TestLateWritesChangeNothing(t *testing.T) {
	tests := []struct {
		name  string
		begin func(t *testing.T, s *site) late
	}{
		{"redeemed elsewhere", func(t *testing.T, s *site) late {
			p := s.as(t)
			code := p.mustConsent(s.aside.process)
			var tokens answer
			return late{
				try:       func(at *process) answer { return p.redeem(at, code) },
				meanwhile: func() { tokens = must(t, "tokens", p.redeem(s.aside.process, code), succeeded) },
				then:      func() { mustLive(t, p, s.process, tokens) },
			}
		}},
		{"refreshed twice elsewhere", func(t *testing.T, s *site) late {
			p, tokens := tokensFor(t, s)
			return late{
				try: func(at *process) answer { return p.refresh(at, tokens.Refresh) },
				meanwhile: func() {
					tokens = must(t, "tokens", p.refresh(s.aside.process, tokens.Refresh), succeeded)
					tokens = must(t, "tokens", p.refresh(s.aside.process, tokens.Refresh), succeeded)
				},
				then: func() { mustLive(t, p, s.process, tokens) },
			}
		}},
		{"revoked elsewhere", func(t *testing.T, s *site) late {
			p, tokens := tokensFor(t, s)
			return late{
				try:       func(at *process) answer { return p.refresh(at, tokens.Refresh) },
				meanwhile: func() { must(t, "revoked", p.revoke(s.aside.process, tokens.Access), succeeded) },
				then:      func() { mustBeDead(t, p, s.process, tokens) },
			}
		}},
		{"a revocation, refreshed elsewhere", func(t *testing.T, s *site) late {
			p, tokens := tokensFor(t, s)
			return late{
				try:       func(at *process) answer { return p.revoke(at, tokens.Refresh) },
				meanwhile: func() { tokens = must(t, "tokens", p.refresh(s.aside.process, tokens.Refresh), succeeded) },
				then:      func() { mustLive(t, p, s.process, tokens) },
			}
		}},
		{"declined elsewhere", func(t *testing.T, s *site) late {
			form, made := consentPage(t, s)
			return late{
				try: decision(form),
				meanwhile: func() {
					must(t, "declined or the end of the page", decision(form.with("decision", "deny"))(s.aside.process), either(denied, expired))
				},
				then: func() {
					must(t, "the end of the page", decision(form)(s.process), expired)
					if n := made(t); n > 1 { // one without a code
						t.Errorf("%d grants", n)
					}
				},
			}
		}},
	}
	x := trouble{begin: hold(redistest.Requests)}
	const parts = 2 // those that begin at odd round trips, and at even ones
	name := func(i int) string { return tests[i/parts].name }
	inParallel(t, sites(t, parts*len(tests)), parts*len(tests), name, func(t *testing.T, s *site, i int) {
		for at := 1 + i%parts; !t.Failed(); at += parts {
			w := tests[i/parts].begin(t, s)
			s.warm(t)
			a := s.lay(x, at)
			said := w.try(s.process)
			if !a.strikes() {
				return
			}
			must(t, "503", said, func(a answer) bool { return a.outcome() == unavailable })
			w.meanwhile()
			a.mustArrive(t)
			w.then()
		}
	})
}

// late is a request whose writes come late.
type late struct {
	try             func(at *process) answer
	meanwhile, then func()
}

// mustArrive releases the delayed bytes, and waits until Redis has executed all commands.
func (a *ambush) mustArrive(t *testing.T) {
	t.Helper()
	before := obeyed(t, a.site)
	a.lift()
	last, since := before, time.Now()
	eventually(t, patience, func() error {
		if n := obeyed(t, a.site); n != last {
			last, since = n, time.Now()
		}
		if last == before || time.Since(since) < 50*time.Millisecond {
			return fmt.Errorf("%d late commands have arrived", last-before)
		}
		return nil
	})
}

// obeyed returns how many commands of requests a Redis has executed.
func obeyed(t *testing.T, s *site) (n int) {
	t.Helper()
	stats, err := s.redis.Client().Info(t.Context(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(stats) {
		name, numbers, _ := strings.Cut(line, ":")
		if name == "cmdstat_hello" || name == "cmdstat_get" || name == "cmdstat_evalsha" {
			calls, _, _ := strings.Cut(strings.TrimPrefix(numbers, "calls="), ",")
			count, _ := strconv.Atoi(calls)
			n += count
		}
	}
	return n
}

// TestJitter: when each direction takes up to 200 ms, everything is slower and nothing else.
func TestJitter(t *testing.T) {
	all := sites(t, 5)
	tests := deeds()
	inParallel(t, all, len(tests), func(i int) string { return tests[i].name }, func(t *testing.T, s *site, i int) {
		for range amount(2, 20) {
			d := tests[i]
			tr := d.begin(t, s)
			s.warm(t) // a new connection takes two round trips for the first command
			both(func(d redistest.Direction) { s.proxy.Latency(d, 100*time.Millisecond, 100*time.Millisecond) })
			said := []answer{tr.try(s.process), tr.try(s.process)}
			s.proxy.Clear()
			must(t, "a success", said[0], succeeded)
			must(t, "a success, or beaten", said[1], either(succeeded, tr.beaten))
			d.fits(t, tr, said, false)
			tr.judge(t, said)
		}
	})
}
