package mirror_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gatehouse.example/registry"
	"gatehouse.example/registry/mirror"
	"gatehouse.example/registry/registrytest"
	"gatehouse.example/registry/upstream"
	"gatehouse.example/storage"
	"gatehouse.example/storage/catalogue"
)

// While the upstream is unavailable, and the store at times, the rows that were read are served
// and none is lost.
func TestStoreFaults(t *testing.T) {
	m := newFixture(t)
	m.upstream.Fill(80)
	for _, lose := range []func(){
		func() { m.faults.LoseRequests(3) }, func() { m.faults.LoseReplies(3) }, func() { m.faults.LoseReplies(40) }, func() { m.faults.LoseRequests(40) },
	} {
		lose()
		if _, err := m.keeper.SyncWith(t.Context(), mirror.SyncOptions{Full: true}); err != nil {
			t.Logf("%v", err)
		}
		m.restart(nil)
	}
	m.faults.SetDown(true)
	if _, err := m.keeper.Sync(t.Context()); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("the store is down: %v", err)
	}
	m.faults.SetDown(false)
	m.sync(mirror.SyncOptions{Full: true})
	if s := m.status(); len(m.listed()) != 80 || s.Rows != 80 || s.Servers != 80 || s.Failure != nil {
		t.Errorf("%d are listed: %+v", len(m.listed()), s)
	}
}

// A page that the store did not accept is read again.
func TestPageIsNotPassedOver(t *testing.T) {
	m := newFixture(t)
	m.upstream.Fill(50)
	waits := 0
	m.restart(func(c *mirror.Config) {
		c.Progress = func(r mirror.Report) { m.faults.SetDown(r.Pages == 2) }
		c.Wait = func(context.Context, time.Duration) error {
			if waits++; waits == 8 { // the last try
				m.faults.SetDown(false)
			}
			return nil
		}
	})
	if _, err := m.keeper.Sync(t.Context()); !errors.Is(err, storage.ErrUnavailable) || waits != 8 {
		t.Fatalf("%v after %d waits", err, waits)
	}
	if s := m.status(); s.Running == nil || s.Running.Pages != 2 || len(m.listed()) != 20 {
		t.Errorf("%+v", s)
	}
	m.restart(nil)
	if report := m.sync(mirror.SyncOptions{}); !report.Resumed || report.Items != 50 || len(m.listed()) != 50 {
		t.Errorf("%+v: %d", report, len(m.listed()))
	}
}

// Readers see each page of the upstream as a whole or not at all, during a crawl and while whole
// servers change.
func TestReadersSeeWholePages(t *testing.T) {
	m := newFixture(t)
	const pages = 12
	m.upstream.Fill(10 * pages)
	ctx, stop := context.WithCancel(t.Context())
	var reading sync.WaitGroup
	var reads atomic.Int64
	for range 2 {
		reading.Go(func() {
			for ctx.Err() == nil {
				m.readWhole(ctx)
				reads.Add(1)
			}
		})
	}
	m.sync(mirror.SyncOptions{})
	for round := range 3 { // each change of a page includes the row that was the latest
		for i := range 10 * pages {
			m.upstream.Add(fmt.Sprintf("com.example/server-%06d", i+1), fmt.Sprintf("1.%d.0", round+1))
		}
		m.restart(func(c *mirror.Config) {
			c.Client = newClient(t, upstream.Config{Base: m.upstream.URL(), PageSize: 10 * (round + 2)})
		})
		m.sync(mirror.SyncOptions{Full: true})
	}
	eventually(t, "reads", func() bool { return reads.Load() > 2 })
	stop()
	reading.Wait()
}

// One of two processes crawls. The error of the other one names it, and the other one takes over
// when it ends.
func TestTwoAggregators(t *testing.T) {
	m := newFixture(t)
	m.upstream.Fill(60)
	hold := make(chan struct{})
	m.upstream.Break(registrytest.Faults{After: 2, Hold: hold})
	m.restart(func(c *mirror.Config) { c.Owner = "the first" })
	first := m.keeper
	ended := make(chan error, 1)
	go func() {
		_, err := first.Sync(t.Context())
		ended <- err
	}()
	eventually(t, "the first one is at it", func() bool { return m.status().Running != nil && m.status().Running.Pages == 2 })
	m.restart(func(c *mirror.Config) { c.Owner = "the second" })
	_, err := m.keeper.Sync(t.Context())
	var elsewhere *catalogue.LeasedError
	if !errors.As(err, &elsewhere) || elsewhere.Owner != "the first" || m.status().Writer != "the first" {
		t.Errorf("%v", err)
	}
	close(hold)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if report := m.sync(mirror.SyncOptions{}); report.Mode != mirror.ModeIncrement || len(m.listed()) != 60 {
		t.Errorf("%+v", report)
	}
}

// Run does rounds on time, in one of several processes, also after failures.
func TestRun(t *testing.T) {
	m := newFixture(t)
	m.upstream.Fill(30)
	at := m.clock.Now()
	m.upstream.SetClock(m.clock.Now)
	var rounds []time.Duration
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	turns := &turns{clock: m.clock, waiting: map[int]time.Time{}, processes: 2, until: at.Add(10 * time.Hour), stop: stop}
	turns.changed.L = &turns.mu
	var running sync.WaitGroup
	for i := range turns.processes {
		m.restart(func(c *mirror.Config) {
			c.Owner, c.Look = fmt.Sprint(i), time.Minute
			c.Progress = func(r mirror.Report) { // called by one process at a time, which holds the lease
				if r.Pages == 1 {
					rounds = append(rounds, m.clock.Now().Sub(at))
				}
			}
			c.Wait = func(ctx context.Context, d time.Duration) error {
				if d <= 0 {
					t.Errorf("it waits for %s", d)
				}
				turns.wait(i, d)
				return ctx.Err()
			}
		})
		keeper := m.keeper
		running.Go(func() {
			if err := keeper.Run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	running.Wait()
	if len(rounds) < 5 {
		t.Fatalf("%d rounds: %v", len(rounds), rounds)
	}
	for i := 1; i < len(rounds); i++ { // the random part is half of a tenth, and each process checks once a minute
		if between := rounds[i] - rounds[i-1]; between < time.Hour+3*time.Minute || between > time.Hour+4*time.Minute {
			t.Errorf("%s between two rounds", between)
		}
	}
	if len(m.listed()) != 30 {
		t.Errorf("%d are listed", len(m.listed()))
	}
}

// turns is a clock for several processes. When all of them wait, it advances to the end of the
// shortest wait, and that process continues alone.
type turns struct {
	mu        sync.Mutex
	changed   sync.Cond
	clock     *waiting
	waiting   map[int]time.Time
	processes int
	until     time.Time
	stop      func()
	over      bool
}

func (s *turns) wait(process int, d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting[process] = s.clock.Now().Add(d)
	for s.next() != process && !s.over {
		s.changed.Wait()
	}
	delete(s.waiting, process)
}

// next returns the index of the process that continues, -1 while not all of them wait.
func (s *turns) next() int {
	if len(s.waiting) < s.processes {
		return -1
	}
	first := 0
	for process, at := range s.waiting {
		if at.Before(s.waiting[first]) || at.Equal(s.waiting[first]) && process < first {
			first = process
		}
	}
	at := s.waiting[first]
	s.clock.mu.Lock()
	s.clock.now = at
	s.clock.mu.Unlock()
	if at.After(s.until) {
		s.over = true
		s.stop()
	}
	s.changed.Broadcast()
	return first
}

// After a failure the next round begins before the hour is over, each time later, and not before
// the end of a pause that the upstream demands.
func TestRunAfterFaults(t *testing.T) {
	for _, tt := range []struct {
		name   string
		faults registrytest.Faults
		rounds [2]int // rounds in three hours: at least, at most
	}{
		{"down", registrytest.Faults{Down: true}, [2]int{6, 9}},
		{"busy for two hours", registrytest.Faults{Status: 429, RetryAfter: "7200"}, [2]int{2, 2}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := newFixture(t)
			m.upstream.Fill(3)
			m.upstream.Break(tt.faults)
			at := m.clock.Now()
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			m.restart(func(c *mirror.Config) {
				c.Look = time.Minute
				c.Wait = func(ctx context.Context, d time.Duration) error {
					if m.later(d); m.clock.Now().Sub(at) > 3*time.Hour {
						stop()
					}
					return ctx.Err()
				}
			})
			if err := m.keeper.Run(ctx); err != nil {
				t.Error(err)
			}
			if n := strings.Count(m.logs.String(), "the upstream cannot be read"); n < tt.rounds[0] || n > tt.rounds[1] {
				t.Errorf("%d rounds\n%s", n, m.logs)
			}
			m.upstream.Mend()
			m.later(2 * time.Hour) // no request before
			m.sync(mirror.SyncOptions{})
			if s := m.status(); s.Failure != nil || !slices.Equal(m.listed(), []string{"com.example/server-000001 1.0.0", "com.example/server-000002 1.0.0", "com.example/server-000003 1.0.0"}) {
				t.Errorf("%+v", s)
			}
		})
	}
}

// Own servers are published even if the upstream fails, and a crawl that another process left
// unfinished is continued before an hour is over.
func TestRunLooks(t *testing.T) {
	m := newFixture(t)
	m.upstream.Fill(30)
	m.sync(mirror.SyncOptions{})
	m.upstream.Add("com.example/server-000031", "1.0.0")
	m.upstream.Break(registrytest.Faults{Down: true})
	m.later(2 * time.Hour)
	at := m.clock.Now()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var own []registry.Item
	m.restart(func(c *mirror.Config) {
		c.Own = func() []registry.Item { return own }
		c.Wait = func(ctx context.Context, d time.Duration) error {
			m.later(d)
			switch past := m.clock.Now().Sub(at); {
			case past > 40*time.Minute:
				stop()
			case past > 20*time.Minute && own == nil:
				own = ownItems(t, registry.OwnServer{Name: "com.example/notes", URL: "https://notes.example.com/mcp"})
			}
			return ctx.Err()
		}
	})
	if err := m.keeper.Run(ctx); err != nil {
		t.Error(err)
	}
	e := m.entry("com.example/notes", "1.0.0")
	if late := e.Updated.Sub(at.Add(20 * time.Minute)); late < 0 || late > time.Minute || m.status().Failure == nil {
		t.Errorf("an own server appears after %s: %+v", late, m.status())
	}

	m.upstream.Mend()
	m.sync(mirror.SyncOptions{})
	m.upstream.Break(registrytest.Faults{After: 1, Down: true})
	dying, die := context.WithCancel(t.Context())
	m.restart(func(c *mirror.Config) {
		c.Wait = func(context.Context, time.Duration) error {
			die() // the process ends in the middle of a crawl
			return context.Canceled
		}
	})
	if _, err := m.keeper.SyncWith(dying, mirror.SyncOptions{Full: true}); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	m.upstream.Mend()
	at = m.clock.Now()
	ctx, stop = context.WithCancel(t.Context())
	defer stop()
	m.restart(func(c *mirror.Config) {
		c.Wait = func(ctx context.Context, d time.Duration) error {
			if m.later(d); m.status().Running == nil || m.clock.Now().Sub(at) > 30*time.Minute {
				stop()
			}
			return ctx.Err()
		}
	})
	if err := m.keeper.Run(ctx); err != nil {
		t.Error(err)
	}
	if s := m.status(); s.Running != nil || !s.LastFull.Resumed || len(m.listed()) != 32 {
		t.Errorf("%+v", s)
	}
}

// A registry without an upstream publishes its own servers again when the store has lost them,
// and not while the store has them.
func TestRunAfterLoss(t *testing.T) {
	m := newFixture(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	own := ownItems(t, registry.OwnServer{Name: "com.example/notes", URL: "https://notes.example.com/mcp"})
	var at [3]uint64 // the last commit at each look
	looks := 0
	m.restart(func(c *mirror.Config) {
		c.Client, c.Own = nil, func() []registry.Item { return own }
		c.Wait = func(ctx context.Context, d time.Duration) error {
			m.later(d)
			switch looks++; looks {
			case 5, 10:
				at[looks/5-1] = m.status().Committed
			case 11:
				m.lose()
			case 20:
				at[2] = m.status().Committed
				stop()
			}
			return ctx.Err()
		}
	})
	if err := m.keeper.Run(ctx); err != nil {
		t.Error(err)
	}
	if got := m.listed(); !slices.Equal(got, []string{"com.example/notes 1.0.0"}) || at[0] == 0 || at[0] != at[1] || at[2] == 0 {
		t.Errorf("%v, commits %v\n%s", got, at, m.logs)
	}
}

type transport func(*http.Request) (*http.Response, error)

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

// A failure that cannot be stored does not make rounds follow each other without a pause.
func TestRunWithoutStore(t *testing.T) {
	m := newFixture(t)
	m.upstream.Fill(3)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	at := m.clock.Now()
	waits := 0
	m.restart(func(c *mirror.Config) {
		c.Client = newClient(t, upstream.Config{Base: m.upstream.URL(), HTTP: &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
			m.faults.SetDown(true) // from the first write on
			waits = 0
			return http.DefaultTransport.RoundTrip(r)
		})}})
		c.Wait = func(ctx context.Context, d time.Duration) error {
			if m.later(d); m.clock.Now().Sub(at) > 3*time.Hour {
				stop()
			}
			if waits++; waits == 8 { // the last try
				m.faults.SetDown(false)
			}
			return ctx.Err()
		}
	})
	if err := m.keeper.Run(ctx); err != nil {
		t.Error(err)
	}
	if n := len(m.upstream.Requests()); n < 5 || n > 60 {
		t.Errorf("%d requests in three hours", n)
	}
}
