//go:build e2e

package faults

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"gatehouse.example/storage/redis/redistest"
)

// outage is trouble that affects all requests for a while.
type outage struct {
	trouble
	// noticed is set if the absence of the store is found at once.
	noticed bool
}

// outages are the faults that can last.
var outages = []outage{
	{trouble: trouble{name: "black hole", begin: func(s *site) { both(s.proxy.BlackHole) }}},
	{trouble: trouble{name: "replies lost", begin: func(s *site) { s.proxy.BlackHole(redistest.Replies) }}},
	{trouble: trouble{name: "replies late", begin: hold(redistest.Replies)}},
	{trouble: trouble{name: "refused", begin: func(s *site) { s.proxy.Cut() }, end: func(s *site) { s.proxy.Restore() }}, noticed: true},
	{trouble: trouble{name: "accepted, not answered", begin: func(s *site) { s.redis.Pause(); s.proxy.Reset() }, end: func(s *site) { s.redis.Resume() }}},
	{trouble: trouble{name: "resets", begin: func(s *site) { both(s.proxy.ResetOn) }}},
}

// TestOutages: while the store is away, every request that needs it ends with 503 in time, others
// are answered at once, and readiness is off. When it is back, all requests are served again
// without a restart, and earlier answers are still true.
func TestOutages(t *testing.T) {
	all := sites(t, 4)
	for _, s := range all {
		s.run(t)
	}
	crowds := []int{20}
	if *long {
		crowds = []int{1, 20}
	}
	n := len(outages) * len(crowds)
	at := func(i int) (outage, int) { return outages[i%len(outages)], crowds[i/len(outages)] }
	name := func(i int) string { o, workers := at(i); return fmt.Sprintf("%s, %d at once", o.name, workers) }
	inParallel(t, all, n, name, func(t *testing.T, s *site, i int) {
		o, workers := at(i)
		o.hit(t, s, workers)
	})
}

// hit begins and ends the outage.
func (o outage) hit(t *testing.T, s *site, workers int) {
	tries := make([]*attempts, len(deeds()))
	for i, d := range deeds() {
		tries[i] = &attempts{deed: d, trial: d.begin(t, s)}
	}
	mustBeReady(t, s)
	o.begin(s)
	end := time.Now().Add(time.Duration(amount(3, 30)) * time.Second)
	var busy sync.WaitGroup
	for w := range workers {
		busy.Go(func() {
			for i := w; time.Now().Before(end); i++ {
				tries[i%len(tries)].again(s.process)
				<-time.After(20 * time.Millisecond)
			}
		})
	}
	busy.Go(func() { askForDocuments(t, s, end) })
	mustNotBeReady(t, s, end)
	o.finish(s)
	back := time.Now()
	busy.Wait()
	for _, d := range tries {
		d.mustReturn(t, s, back)
		mustBeReady(t, s)
	}
	for _, d := range tries {
		o.mustHaveTold(t, d, end)
		d.fits(t, d.trial, d.said, false)
		d.judge(t, d.said)
	}
}

// mustHaveTold expects that the answers before the end were 503.
func (o outage) mustHaveTold(t *testing.T, d *attempts, end time.Time) {
	t.Helper()
	for _, a := range d.said {
		if ended := a.Began.Add(a.Took); ended.Before(end) {
			must(t, "503", a, d.comesBack)
		}
		if o.noticed && a.outcome() == unavailable && a.Took > triedTime {
			t.Errorf("it took %s to find out that there is no store: %s", a.Took, a)
		}
	}
}

// attempts are the answers to one trial.
type attempts struct {
	deed
	trial
	mu   sync.Mutex
	said []answer
}

func (d *attempts) again(at *process) answer {
	a := d.try(at)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.said = append(d.said, a)
	return a
}

// mustReturn expects that the deed is served again, soon after the outage.
func (d *attempts) mustReturn(t *testing.T, s *site, back time.Time) {
	t.Helper()
	for {
		begin := time.Now()
		a := d.again(s.process)
		if a.outcome() != unavailable {
			return
		}
		if begin.Sub(back) > returnTime {
			t.Errorf("%s after the outage: %s", begin.Sub(back), a)
			return
		}
		<-time.After(50 * time.Millisecond)
	}
}

func mustBeReady(t *testing.T, s *site) {
	t.Helper()
	if err := s.server.Ready(t.Context()); err != nil {
		t.Errorf("not ready: %v", err)
	}
}

// mustNotBeReady asks whether the server is ready, until the end.
func mustNotBeReady(t *testing.T, s *site, end time.Time) {
	t.Helper()
	for begin := time.Now(); begin.Before(end); begin = time.Now() {
		if err := s.server.Ready(t.Context()); err == nil || time.Since(begin) > promisedTime {
			t.Errorf("ready after %s: %v", time.Since(begin), err)
		}
		<-time.After(min(100*time.Millisecond, time.Until(end)))
	}
}

// askForDocuments sends requests that need no store, until the end.
func askForDocuments(t *testing.T, s *site, end time.Time) {
	for time.Now().Before(end) {
		for _, path := range []string{"/.well-known/oauth-authorization-server", "/jwks.json", "/healthz"} {
			a := s.call(path, newRequest(http.MethodGet, s.fleet.issuer+path, ""))
			must(t, "answered", a, func(a answer) bool { return a.Status == http.StatusOK && strings.HasPrefix(a.body, "{") })
			if a.Took > triedTime {
				t.Errorf("it needs no store, and took %s: %s", a.Took, a)
			}
		}
		<-time.After(50 * time.Millisecond)
	}
}
