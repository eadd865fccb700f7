//go:build e2e

package faults

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"gatehouse.example/storage/redis/redistest"
)

// show runs TestOperationsUnderLoad, which takes two minutes: go test -tags e2e ./internal/faults -run
// OperationsUnderLoad -v -faults.show
var show = flag.Bool("faults.show", false, "rotate, reload and stop servers under 200 requests a second")

const (
	showPace      = time.Second / 200
	showRotations = 10
	showReloads   = 20 // five for each stop
	showStops     = 4
	showFamilies  = 64
)

// showing is the load of the show: clients that refresh and sign in, and resources that ask, at a
// balancer in front of two processes.
type showing struct {
	*keyLoad
	front    *balancer
	families chan *showFamily
	asker    *party
	file     string       // of settings
	reloaded atomic.Int64 // reloads that took effect
	person   sync.Mutex   // one browser signs in at a time

	flying    sync.WaitGroup
	late      atomic.Int64 // requests that began more than a second after their time
	consents  atomic.Int64
	refreshes atomic.Int64

	timing sync.Mutex
	took   []time.Duration
}

// showFamily is a grant with its newest refresh token.
type showFamily struct {
	*party
	refresh string
}

func newShowing(t *testing.T, flags ...string) *showing {
	t.Helper()
	f := newFleet(t, fleetConfig{Store: redistest.StartServer(t)})
	s := &showing{families: make(chan *showFamily, showFamilies), file: filepath.Join(t.TempDir(), "gatehouse.yaml")}
	s.setting(t, 0)
	flags = append(flags, "--config", s.file, "--key-cache", keyCache.String(), "--key-rotation", "0", "--access-token-ttl", "30m", "--drain", "3s")
	front := newBalancer(t, f, 2, flags...)
	l := &keyLoad{t: t, fleet: f, at: [2]*process{front.process, front.process}, stop: make(chan struct{}), signed: map[string]bool{}}
	for i := range l.resources {
		l.resources[i] = &resourceServer{at: front.process}
	}
	l.store = openStore(t, f)
	s.keyLoad, s.front = l, front
	p := f.newParty(front.process)
	s.asker = p
	for range showFamilies {
		first := p.mustTokens(front.process)
		l.issued(first.Access)
		s.families <- &showFamily{p, first.Refresh}
	}
	return s
}

// run begins a request every five milliseconds, whether or not earlier ones have ended.
func (s *showing) run() {
	begin := time.Now()
	for i := 0; ; i++ {
		due := begin.Add(time.Duration(i) * showPace)
		select {
		case <-s.stop:
			s.flying.Wait()
			return
		case <-time.After(time.Until(due)):
		}
		if time.Since(due) > time.Second {
			s.late.Add(1)
		}
		s.flying.Go(s.request)
	}
}

// request is one request: of sixteen, four refresh, one signs in (some requests more), and the others
// present a token.
func (s *showing) request() {
	began := time.Now()
	switch n := rand.IntN(16); {
	case n < 4:
		s.refresh()
	case n == 4 && s.person.TryLock():
		s.signIn()
		s.person.Unlock()
	default:
		s.present(s.asker, rand.IntN(2), s.sample())
	}
	s.timing.Lock()
	defer s.timing.Unlock()
	s.took = append(s.took, time.Since(began))
	s.asked.Add(1)
}

// refresh uses the refresh token of one family once. The answer must be whole: its tokens are the only
// ones of the family from then on.
func (s *showing) refresh() {
	f := <-s.families
	defer func() { s.families <- f }()
	a := f.party.refresh(s.front.process, f.refresh)
	if a.outcome() != granted || a.Access == "" || a.Refresh == "" || a.Refresh == f.refresh {
		s.wrong("%s", a)
		return
	}
	f.refresh = a.Refresh
	s.issued(a.Access)
	s.refreshes.Add(1)
}

// signIn has the person consent, and redeems the code.
func (s *showing) signIn() {
	f := <-s.families
	defer func() { s.families <- f }()
	code := f.consent(s.front.process)
	if code.outcome() != granted || code.Code == "" {
		s.wrong("%s", code)
		return
	}
	a := f.redeem(s.front.process, code.Code)
	if a.outcome() != granted || a.Access == "" {
		s.wrong("%s", a)
		return
	}
	s.issued(a.Access)
	s.consents.Add(1)
}

// setting writes the file of settings with another client, name of the pages and lifetime of codes.
func (s *showing) setting(t testing.TB, n int) {
	t.Helper()
	text := fmt.Sprintf("code-ttl: %ds\npages: {name: Show %d}\nclients:\n  - client_id: show-%d\n    client_name: Show\n    redirect_uris: [https://web.example.com/callback]\n", 60+n, n, n)
	if err := os.WriteFile(s.file+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(s.file+".new", s.file); err != nil {
		t.Fatal(err)
	}
}

// reload has a process read other settings. All three that differ count at once.
func (s *showing) reload(i int) {
	s.t.Helper()
	s.setting(s.t, int(s.reloaded.Add(1)))
	b := s.front.backends[i]
	cmd := exec.Command(authzBinary, "reload", "--json", "--config", s.file, "--admin-listen", b.admin)
	cmd.Env = s.fleet.environment()
	out, err := cmd.CombinedOutput()
	for _, key := range []string{"clients", "pages", "code-ttl"} {
		if err != nil || !strings.Contains(string(out), `"key": "`+key+`"`) && !strings.Contains(string(out), `"key":"`+key+`"`) {
			s.t.Errorf("reload of %s: %v: %s", b.address, err, out)
			return
		}
	}
}

// stopOne sends SIGTERM to a process, which must end by itself without an error, and starts it again.
func (s *showing) stopOne(i int) {
	s.t.Helper()
	b := s.front.backends[i]
	cmd, exited := b.running()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		s.t.Fatal(err)
	}
	select {
	case <-exited:
	case <-time.After(patience):
		s.t.Fatalf("authz at %s did not stop", b.address)
	}
	if b.err != nil {
		s.t.Errorf("authz at %s stopped with %v", b.address, b.err)
	}
	b.start(s.t, b.flags...)
	eventually(s.t, patience, func() error {
		if !b.ready.Load() {
			return errors.New("the balancer does not use it again")
		}
		return nil
	})
}

// TestOperationsUnderLoad: keys rotate, settings are reloaded and one of two processes ends, again and
// again, under 200 requests a second. No valid token is refused, no request is without its whole
// answer, and every family goes on with the tokens of the last answer; with an audit trail and traces
// too.
func TestOperationsUnderLoad(t *testing.T) {
	if !*show {
		t.Skip("it takes two minutes: -faults.show")
	}
	t.Run("alone", func(t *testing.T) { operationsUnderLoad(t) })
	t.Run("with an audit trail and traces", func(t *testing.T) {
		var exported atomic.Int64
		collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			n, _ := io.Copy(io.Discard, r.Body)
			exported.Add(n)
		}))
		t.Cleanup(collector.Close)
		t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
		operationsUnderLoad(t, "--audit", "-")
		if exported.Load() == 0 {
			t.Error("no trace was exported")
		}
	})
}

func operationsUnderLoad(t *testing.T, flags ...string) {
	s := newShowing(t, flags...)
	done := make(chan struct{})
	began := time.Now()
	go func() { defer close(done); s.run() }()
	var others sync.WaitGroup
	others.Go(func() {
		for i := range showStops {
			var stopping sync.WaitGroup
			stopping.Go(func() { s.stopOne(i % 2) })
			for range 3 { // at the one that serves alone
				s.reload(1 - i%2)
			}
			stopping.Wait()
			s.reload(i % 2)
			s.reload(1 - i%2)
		}
	})
	for range showRotations {
		s.rotate()
	}
	others.Wait()
	lasted := time.Since(began)
	s.end()
	<-done
	for range showFamilies {
		s.refresh()
	}
	slices.Sort(s.took)
	at := func(part float64) time.Duration {
		return s.took[int(part*float64(len(s.took)-1))].Round(time.Millisecond / 10)
	}
	t.Logf("%d requests in %s (%.0f a second, %d late), %d refreshes, %d sign-ins, %d tokens of %d keys; half took %s, 99%% %s, all %s",
		s.asked.Load(), lasted.Round(time.Second), float64(s.asked.Load())/lasted.Seconds(), s.late.Load(), s.refreshes.Load(), s.consents.Load(), len(s.tokens), len(s.signed), at(0.5), at(0.99), at(1))
	t.Logf("%d rotations, %d reloads, %d processes ended and began, requests at each: %d and %d; %d wrong answers",
		showRotations, s.reloaded.Load(), showStops, s.front.backends[0].sent.Load(), s.front.backends[1].sent.Load(), s.wrongs.Load())
	if rate := float64(s.asked.Load()) / lasted.Seconds(); rate < 0.95*float64(time.Second/showPace) || s.late.Load() > s.asked.Load()/100 {
		t.Errorf("%.0f requests in a second, %d late", rate, s.late.Load())
	}
	if len(s.signed) < showRotations+1 || s.reloaded.Load() != showReloads {
		t.Errorf("%d keys signed, %d reloads", len(s.signed), s.reloaded.Load())
	}
}
