//go:build e2e

package faults

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"gatehouse.example/storage"
	"gatehouse.example/storage/redis/redistest"
)

const (
	actors = 5  // clients of one family
	acts   = 12 // requests of one actor
	// enoughLost is how many changes of one family with an unknown outcome are enough: the
	// checker tries all orders in which they can have happened.
	enoughLost = 6
	// requestTime is how long a request may take: two seconds, and a margin for a busy machine.
	requestTime = 2*time.Second + 2*time.Second
)

// TestHistories: clients redeem, refresh, revoke and introspect at two processes, while the
// connection of one of them to Redis fails in every way and the other one is killed and started
// again. By the rules, their answers can have happened in one order.
func TestHistories(t *testing.T) {
	for _, c := range []struct {
		name   string
		rules  rules
		window string
	}{
		{"with a window", rules{window: true}, "10m"},
		{"without a window", rules{window: false}, "0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			flags := []string{"--code-ttl", "10m", "--access-token-ttl", "1h", "--refresh-window", c.window}
			d, weather := newStormyPair(t, flags...)
			for range amount(1, 10) {
				families := d.liveThrough(t, c.rules, weather, flags)
				report(t, families)
				for _, f := range families {
					f.mustBeWell(t)
					if f.rules.mustBeLinearizable(t, f.history); t.Failed() {
						return // one is enough
					}
				}
			}
		})
	}
}

// liveThrough has many families live through a storm, a few at a time, and then checks them.
func (d *pair) liveThrough(t *testing.T, r rules, weather storm, flags []string) []*diary {
	t.Helper()
	families := make([]*diary, 100)
	for i, code := range d.party.mustCodes(d.at[1], len(families)) {
		families[i] = &diary{pair: d, rules: r, epoch: time.Now(), code: code, refresh: map[uint32]string{}}
	}
	calm := weather.begin(t, d.at[1], flags)
	crowd(20, len(families), func(i int) { families[i].live() })
	calm()
	d.mustRecover(t)
	crowd(10, len(families), func(i int) { families[i].epilogue() })
	return families
}

// storm is the faults of a pair.
type storm struct{ proxy *redistest.Proxy }

// newStormyPair returns a pair whose first process reaches Redis through a storm.
func newStormyPair(t *testing.T, flags ...string) (*pair, storm) {
	t.Helper()
	server := redistest.Start(t, redistest.Config{})
	proxy := redistest.StartProxy(t, server.Addr)
	f := newFleet(t, fleetConfig{Store: server.URL()})
	weather := storm{proxy}
	weather.clear()
	far := f.start(append([]string{"--store", "redis://" + proxy.Addr}, flags...)...)
	return f.pair([2]*process{far, f.start(flags...)}), weather
}

// begin breaks the connections to Redis in one way after the other, with pauses between them, and
// kills the process now and then, until the returned function is called. The connections are slow
// all the time, so that faults find requests between two of their steps. Some faults last longer
// than a request may.
func (s storm) begin(t *testing.T, mortal *process, flags []string) (calm func()) {
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		faults := s.faults()
		for i := rand.IntN(len(faults)); s.pause(stop, 20, 100); i++ {
			faults[i%len(faults)]()
			if i%4 == 0 {
				s.pause(stop, 2100, 2400)
			} else {
				s.pause(stop, 20, 200)
			}
			s.clear()
		}
	})
	wg.Go(func() {
		for s.pause(stop, 300, 900) {
			mortal.kill()
			mortal.start(t, flags...)
		}
	})
	return func() { close(stop); wg.Wait() }
}

// clear ends a fault.
func (s storm) clear() {
	s.proxy.Restore()
	s.proxy.Clear()
	s.proxy.Latency(redistest.Requests, 15*time.Millisecond, 15*time.Millisecond)
}

// faults returns all faults of the network. Each lasts until Restore and Clear.
func (s storm) faults() []func() {
	const forever = time.Hour // until Clear, which delivers the delayed bytes
	return []func(){
		func() { s.proxy.Latency(redistest.Replies, 20*time.Millisecond, 20*time.Millisecond) },
		func() { s.proxy.Latency(redistest.Requests, forever, 0) },
		func() { s.proxy.Latency(redistest.Replies, forever, 0) },
		s.proxy.Reset,
		func() { s.proxy.ResetOn(redistest.Requests) },
		func() { s.proxy.ResetOn(redistest.Replies) },
		func() { s.proxy.BlackHole(redistest.Requests) },
		func() { s.proxy.BlackHole(redistest.Replies) },
		s.proxy.Cut,
	}
}

// pause waits for a random number of milliseconds, and reports whether to go on.
func (s storm) pause(stop <-chan struct{}, least, most int) bool {
	select {
	case <-stop:
		return false
	case <-time.After(time.Duration(least+rand.IntN(most-least)) * time.Millisecond):
		return true
	}
}

// unknownRefresh is a refresh token of a grant that does not exist, which only the store can
// show.
const unknownRefresh = "gate_rt_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

// mustRecover expects that both processes answer again, without a restart.
func (d *pair) mustRecover(t *testing.T) {
	t.Helper()
	for _, at := range d.at {
		eventually(t, 10*time.Second, func() error {
			if a := d.party.refresh(at, unknownRefresh); !a.invalidGrant() {
				return fmt.Errorf("%s", a)
			}
			return nil
		})
	}
}

// diary is one family and the requests of its clients.
type diary struct {
	*pair
	rules rules
	epoch time.Time
	code  string

	mu       sync.Mutex
	history  []porcupine.Operation
	access   []string          // in the order of their answers
	refresh  map[uint32]string // by generation
	newest   uint32            // generation of refresh
	odd      []string          // single answers that are wrong
	refusals int
	lost     int // changes with an unknown outcome
}

// live has one client redeem the code, or several at once, and then all of them act at random.
func (f *diary) live() {
	crowd(actors, 1+rand.IntN(6)/4, func(who int) {
		for range 3 { // until an answer is certain
			if f.act(who, request{op: "redeem"}, ""); len(f.tokens()) > 0 || f.over() {
				return
			}
		}
	})
	if len(f.tokens()) == 0 {
		return
	}
	rotators := 1 + rand.IntN(2)*rand.IntN(actors)
	crowd(actors, actors, func(who int) {
		for range acts {
			if !f.over() {
				in, token := f.choose(who < rotators)
				f.act(who, in, token)
			}
		}
	})
}

// tokens returns the access tokens of the clients.
func (f *diary) tokens() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.access
}

// over reports whether clients have been refused often enough for the family to have ended.
func (f *diary) over() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.refusals >= 2*actors
}

// choose draws the next request of a client. Most are those of a correct client.
func (f *diary) choose(rotates bool) (in request, token string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch dice := rand.IntN(200); {
	case dice < 3:
		return request{op: "redeem"}, ""
	case dice < 5:
		return request{op: "revoke"}, f.refresh[f.newest]
	case dice < 6:
		return request{op: "revoke"}, f.access[rand.IntN(len(f.access))]
	case dice < 9:
		return f.use(rand.Uint32N(f.newest + 1))
	case (dice < 10 || dice < 30 && f.rules.window) && f.newest > 0:
		return f.use(f.newest - 1)
	case dice < 120 && rotates:
		return f.use(f.newest)
	case dice < 160:
		return request{op: "introspect"}, f.access[rand.IntN(len(f.access))]
	}
	return request{op: "introspect"}, f.access[len(f.access)-1]
}

// use refreshes with the token of a generation. The answer with it may have been lost: then the
// token is the nearest known one before it, or the newest.
func (f *diary) use(generation uint32) (request, string) {
	for f.refresh[generation] == "" {
		if generation == 0 {
			generation = f.newest + 1
		}
		generation--
	}
	return request{op: "refresh", generation: generation}, f.refresh[generation]
}

// act sends a request to one of the processes and records its answer. Where there is no listener,
// the other process is asked.
func (f *diary) act(who int, in request, token string) {
	at := rand.IntN(len(f.at))
	if f.stormTossed() {
		at = 1
	}
	a := f.ask(f.at[at], in, token)
	if a.outcome() == unsent {
		a = f.ask(f.at[1-at], in, token)
	}
	if a.outcome() != unsent {
		f.write(who, in, a)
	}
}

// stormTossed reports whether the family has had enough faults. The first process is not asked
// any more.
func (f *diary) stormTossed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lost >= enoughLost
}

func (f *diary) ask(at *process, in request, token string) answer {
	switch in.op {
	case "redeem":
		return f.party.redeem(at, f.code)
	case "refresh":
		return f.party.refresh(at, token)
	case "revoke":
		return f.party.revoke(at, token)
	}
	return f.party.introspect(at, token)
}

// write adds an answer to the history. Introspection without an answer is left out.
func (f *diary) write(who int, in request, a answer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	in.shaky = a.At == f.at[0].address
	began := a.Began.Sub(f.epoch)
	o := porcupine.Operation{ClientId: who, Input: in, Call: int64(began), Return: int64(began + a.Took), Output: f.read(in, a), Metadata: a.At}
	switch out := o.Output.(reply); {
	case !out.known && in.op == "introspect":
		return
	case !out.known:
		o.Return = neverAnswered
		f.lost++
		o.ClientId = actors + f.lost // a line of its own in the picture
	case !out.ok:
		f.refusals++
	}
	f.history = append(f.history, o)
}

// read returns the meaning of an answer, and records its tokens and what is wrong with it.
func (f *diary) read(in request, a answer) reply {
	if a.Took > requestTime {
		f.odd = append(f.odd, fmt.Sprintf("too slow: %s", a))
	}
	switch a.outcome() {
	case unknown:
		return reply{}
	case unavailable:
		if a.RetryAfter == "" || a.Error == "" {
			f.odd = append(f.odd, fmt.Sprintf("503 without Retry-After or an error code: %s", a))
		}
		return reply{}
	case granted:
		return f.learn(in, a)
	}
	if !a.invalidGrant() {
		f.odd = append(f.odd, a.String())
	}
	return reply{known: true}
}

func (f *diary) learn(in request, a answer) reply {
	out := reply{known: true, ok: in.op != "introspect" || a.Active}
	if in.op != "redeem" && in.op != "refresh" {
		return out
	}
	token, ok := storage.ParseRefreshToken(a.Refresh)
	if old := f.refresh[token.Generation]; !ok || a.Access == "" || old != "" && old != a.Refresh {
		f.odd = append(f.odd, fmt.Sprintf("no tokens, or a second refresh token of generation %d: %s", token.Generation, a))
		return out
	}
	f.refresh[token.Generation] = a.Refresh
	f.newest = max(f.newest, token.Generation)
	f.access = append(f.access, a.Access)
	out.generation = token.Generation
	return out
}

// epilogue checks the family when everything works again.
func (f *diary) epilogue() {
	for i, token := range f.access {
		if i < 3 || i >= len(f.access)-3 {
			f.write(0, request{op: "introspect"}, f.ask(f.at[i%2], request{op: "introspect"}, token))
		}
	}
	if len(f.refresh) == 0 {
		f.write(0, request{op: "redeem"}, f.ask(f.at[0], request{op: "redeem"}, ""))
		return
	}
	in, token := f.use(f.newest)
	f.write(0, in, f.ask(f.at[1], in, token))
}

func (f *diary) mustBeWell(t *testing.T) {
	t.Helper()
	for _, sentence := range f.odd {
		t.Error(sentence)
	}
}

// report logs how many faults the histories had. Histories in which nothing failed, or nothing
// worked, would prove nothing.
func report(t *testing.T, families []*diary) {
	t.Helper()
	requests, lost, rotations, alive := 0, 0, 0, 0
	for _, f := range families {
		requests += len(f.history)
		lost += f.lost
		rotations += int(f.newest)
		if f.history[len(f.history)-1].Output.(reply).ok {
			alive++
		}
	}
	t.Logf("%d families, %d of them alive at the end, %d requests, %d of them changes with an unknown outcome, %d rotations", len(families), alive, requests, lost, rotations)
	if lost == 0 || rotations == 0 {
		t.Error("the histories show nothing")
	}
}
