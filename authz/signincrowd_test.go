package authz_test

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gatehouse.example/authz"
	"gatehouse.example/authz/admin"
)

// gauge counts what goes on at a time, and keeps it there until the gate is opened.
type gauge struct {
	gate     chan struct{}
	open     func()
	at, most atomic.Int64
}

func newGauge(t *testing.T) *gauge {
	g := &gauge{gate: make(chan struct{})}
	g.open = sync.OnceFunc(func() { close(g.gate) })
	t.Cleanup(g.open)
	return g
}

func (g *gauge) enter() (leave func()) {
	n := g.at.Add(1)
	for seen := g.most.Load(); n > seen && !g.most.CompareAndSwap(seen, n); seen = g.most.Load() {
	}
	<-g.gate
	return func() { g.at.Add(-1) }
}

// whileHeld runs what must be answered although the gate is shut. If it is not, the gate is opened
// and the test fails.
func (g *gauge) whileHeld(t *testing.T, work map[string]func() bool) {
	t.Helper()
	for what, f := range work {
		done := make(chan bool, 1)
		go func() { done <- f() }()
		select {
		case ok := <-done:
			if !ok {
				t.Errorf("%s: failed", what)
			}
		case <-time.After(time.Minute):
			t.Errorf("%s: not answered", what)
			g.open()
			<-done
		}
	}
	select {
	case <-g.gate:
		t.Error("the gate was opened")
	default:
	}
}

// others are requests that have nothing to do with sign-ins.
func (h *harness) others(c testClient, held tokens) map[string]func() bool {
	refresh := held.refresh
	return map[string]func() bool{
		"/token": func() bool {
			for range 5 {
				answer := h.toToken(c, refreshing(c, refresh))
				if answer.status != http.StatusOK {
					return false
				}
				refresh = answer.member(h.t, "refresh_token")
			}
			return true
		},
		"/introspect": func() bool { return h.active(held.access) },
		"/authorize": func() bool {
			return h.newBrowser().open(h.issuer+"/authorize?"+asks(c).Encode()).status == http.StatusSeeOther
		},
		"the JWKS":      func() bool { return h.get("/jwks.json").status == http.StatusOK },
		"/healthz":      func() bool { return h.get("/healthz").status == http.StatusOK },
		"wrong secrets": func() bool { return h.introspectAs(notes, "wrong", "x").status == http.StatusUnauthorized },
	}
}

// waitFor waits until a condition holds that the requests under way bring about.
func waitFor(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for begin := time.Now(); !condition(); runtime.Gosched() {
		if time.Since(begin) > time.Minute {
			t.Fatalf("it does not come to this: %s", what)
		}
	}
}

// TestTwoHundredSignIns: a hundred people sign in with passwords, each from their own network, while
// a hundred sign-ins come from one that has failed before. No more than [authz.Hashing] passwords are hashed at a time, each
// with the memory of a hash; the others wait, and everything else is answered while all of them do.
// Who is turned away is of the network with most, and is told when to come back.
func TestTwoHundredSignIns(t *testing.T) {
	t.Parallel()
	t.Run("J28", func(t *testing.T) {
		p, c := newAtProvider(t, behindProxy), testClients()["native"]
		held := p.tokens(c)
		p.must(admin.SetPassword(t.Context(), p.store, personName, personPassword)) // hashed as in real life
		if hash := p.user(t, personName).Password; !strings.Contains(hash, "$m=19456,t=2,p=1$") {
			t.Fatalf("the hash is %s", hash)
		}
		flood := p.newBrowser().signInForm()
		for i := range 4 { // so that it waits behind those with fewer failures
			if r := flood.send("192.0.2.1", fmt.Sprint("unknown", i), "x"); r.status != http.StatusForbidden {
				t.Fatalf("a wrong password: %s", r)
			}
		}
		p.handler.Load().WaitLong()
		hashing := newGauge(t)
		p.handler.Load().OnCompare(func(_, password string, _ func(string, string) bool) bool {
			defer hashing.enter()()
			return password == personPassword // no hash, so that a slow machine takes no turn from anybody
		})
		honest := p.newBrowser().signInForm()
		var all sync.WaitGroup
		for i := range 100 {
			all.Go(func() {
				mustSignIn(t, fmt.Sprint("person ", i), honest.send(fmt.Sprintf("10.0.%d.1", i), personName, personPassword))
			})
		}
		waitFor(t, "all but a few of a hundred wait", func() bool { return p.handler.Load().SignInsWaiting() == 100-authz.Hashing() })
		for i := range 96 {
			all.Go(func() {
				r := flood.send("192.0.2.1", fmt.Sprint("invented", i), "x")
				if r.status != http.StatusForbidden && (r.status != http.StatusServiceUnavailable || r.header.Get("Retry-After") == "") {
					t.Errorf("one of the flood: %s", r)
				}
			})
		}
		waitFor(t, "as many wait as may", func() bool { return p.handler.Load().SignInsWaiting() == authz.SignInsMost() })
		work := p.others(c, held)
		work["a sign-in with a provider"] = func() bool {
			return p.newBrowser().arrive(p.company, "company", asks(c)).status == http.StatusOK
		}
		hashing.whileHeld(t, work)
		hashing.open()
		all.Wait()
		if n := hashing.most.Load(); n != int64(authz.Hashing()) {
			t.Errorf("%d passwords were hashed at a time, want %d", n, authz.Hashing())
		}
		if n := p.handler.Load().SignInsWaiting(); n != 0 {
			t.Errorf("%d still wait", n)
		}
	})
}

// TestTwoHundredAtAHangingProvider: two hundred people come back from a provider that does not
// answer. It is asked for [authz.AtProviderMost] of them at a time; passwords, the other provider,
// and everything else go on.
func TestTwoHundredAtAHangingProvider(t *testing.T) {
	t.Parallel()
	p, c := newAtProvider(t, behindProxy), testClients()["native"]
	held := p.tokens(c)
	const people = 200
	browsers, backs := make([]*browser, people), make([]string, people)
	for i := range browsers {
		p.company.SignIn(personOf(fmt.Sprint(i+1), fmt.Sprintf("person%d@example.com", i+1)))
		b := p.newBrowser()
		b.from = fmt.Sprintf("10.%d.%d.1", i%2, i/2) // half of them from networks of their own
		if i%2 == 1 {
			b.from = "192.0.2.1"
		}
		b.choose("company", asks(c))
		browsers[i], backs[i] = b, b.leave(p.company).String()
	}
	p.handler.Load().WaitLong()
	asked := newGauge(t)
	p.handler.Load().OnFinish("company", asked.enter)
	var all sync.WaitGroup
	var arrived atomic.Int64
	for i, b := range browsers {
		all.Go(func() {
			r := b.open(backs[i])
			switch {
			case r.status == http.StatusSeeOther:
				arrived.Add(1)
			case r.status != http.StatusServiceUnavailable || r.header.Get("Retry-After") == "":
				t.Errorf("neither signed in nor told to come back: %s", r)
			}
		})
	}
	waitFor(t, "all but those for whom it is asked wait", func() bool {
		return p.handler.Load().AtProviderWaiting("company") == people-authz.AtProviderMost()
	})
	work := p.others(c, held)
	work["a password"] = func() bool { return p.newBrowser().code(asks(c)) != "" }
	work["the other provider"] = func() bool { return p.newBrowser().arrive(p.other, "other", asks(c)).status == http.StatusOK }
	asked.whileHeld(t, work)
	asked.open()
	all.Wait()
	if n := asked.most.Load(); n != int64(authz.AtProviderMost()) {
		t.Errorf("the provider was asked for %d at a time, want %d", n, authz.AtProviderMost())
	}
	if n := arrived.Load(); n < int64(authz.AtProviderMost()) {
		t.Errorf("%d arrived after the provider came back", n)
	}
}
