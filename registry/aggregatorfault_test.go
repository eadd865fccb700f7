package registry_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gatehouse.example/registry"
	"gatehouse.example/registry/registrytest"
	"gatehouse.example/storage"
	"gatehouse.example/storage/catalogue"
)

// A round goes on where one was interrupted, in another process as well, and knows what it
// does not know.
func TestInterrupted(t *testing.T) {
	for name, form := range forms {
		t.Run(name, func(t *testing.T) {
			m := newMirror(t)
			m.upstream.SetForm(form)
			m.upstream.Fill(60)
			m.sync(registry.Order{})
			m.upstream.Remove("com.example/server-000001", "1.0.0")
			m.later(8 * 24 * time.Hour)
			m.upstream.Break(registrytest.Faults{After: 3, Down: true})
			m.asked()
			if _, err := m.fails(); errors.Is(err, registry.ErrBusy) {
				t.Error(err)
			}
			s := m.status()
			if s.Running == nil || s.Running.Pages != 3 || s.Failure == nil || s.Failure.Times != 1 || len(m.listed()) != 60 {
				t.Errorf("%+v", s)
			}
			m.upstream.Mend()
			m.asked()
			m.restart(nil)
			report := m.sync(registry.Order{})
			if !report.Resumed || report.Restarted || report.Judged || report.Pages != 6 || report.Items != 59 || report.Missing != 0 {
				t.Errorf("%+v", report)
			}
			asked := m.asked()
			if len(asked) != 3 || !strings.Contains(asked[0], "cursor=") {
				t.Errorf("%v", asked)
			}
			if len(m.listed()) != 60 || !strings.Contains(m.logs.String(), "the crawl was interrupted") {
				t.Errorf("%d are listed\n%s", len(m.listed()), m.logs)
			}
			m.later(25 * time.Hour) // the next one is early, and sees it all
			if report := m.sync(registry.Order{}); report.Mode != registry.ModeFull || !report.Judged || report.Vanished != 1 {
				t.Errorf("%+v", report)
			}
		})
	}
}

// Who wants to know what is missing gets a crawl that can tell.
func TestAcceptedFromTheBeginning(t *testing.T) {
	m := newMirror(t)
	m.upstream.Fill(60)
	m.sync(registry.Order{})
	m.upstream.Reset()
	m.upstream.Fill(25)
	m.upstream.Break(registrytest.Faults{After: 1, Down: true})
	if _, err := m.keeper.SyncWith(t.Context(), registry.Order{Full: true}); err == nil || m.status().Running == nil {
		t.Fatal(err)
	}
	m.upstream.Mend()
	report := m.sync(registry.Order{AcceptShrink: true})
	if report.Resumed || !report.Judged || report.Vanished != 35 || len(m.listed()) != 25 {
		t.Errorf("%+v", report)
	}
}

// An upstream that does not know any more where to go on is read from the beginning.
func TestRestart(t *testing.T) {
	for _, status := range []int{400, 404, 410, 422} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			m := newMirror(t)
			m.upstream.Fill(45)
			m.upstream.Break(registrytest.Faults{After: 2, Down: true})
			m.fails()
			m.upstream.Break(registrytest.Faults{Times: 1, Status: status})
			if status == 404 { // it is asked for under both versions of the interface
				m.upstream.Break(registrytest.Faults{Times: 2, Status: status})
			}
			m.restart(nil)
			report := m.sync(registry.Order{})
			if !report.Restarted || !report.Judged || report.Pages != 5 || report.Items != 45 || len(m.listed()) != 45 {
				t.Errorf("%+v", report)
			}
		})
	}
}

// The same in the middle of a crawl is an error of the upstream, and no reason to begin again
// and again.
func TestRefusedInTheMiddle(t *testing.T) {
	m := newMirror(t)
	m.upstream.Fill(45)
	m.upstream.Break(registrytest.Faults{After: 2, Times: 1, Status: 400})
	m.fails()
	if s := m.status(); s.Running == nil || s.Running.Pages != 2 {
		t.Errorf("%+v", s)
	}
	if report := m.sync(registry.Order{}); !report.Resumed || report.Restarted {
		t.Errorf("%+v", report)
	}
}

// Nobody is asked more often than told.
func TestBusy(t *testing.T) {
	for _, tt := range []struct {
		name   string
		faults registrytest.Faults
		least  []time.Duration // of the waits of the round
		ends   time.Duration   // when it is given up: how long until the next one, at least
	}{
		{"429 with seconds", registrytest.Faults{After: 1, Times: 2, Status: 429, RetryAfter: "30"}, []time.Duration{30 * time.Second, 30 * time.Second}, 0},
		{"503 with seconds", registrytest.Faults{After: 1, Times: 1, Status: 503, RetryAfter: "7"}, []time.Duration{7 * time.Second}, 0},
		{"429 with a date", registrytest.Faults{Times: 1, Status: 429, RetryAfter: registrytest.Epoch.Add(24*time.Hour + 40*time.Second).Format(http.TimeFormat)}, []time.Duration{40 * time.Second}, 0},
		{"429 without", registrytest.Faults{After: 1, Times: 3, Status: 429}, []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second}, 0},
		{"503 without", registrytest.Faults{After: 1, Times: 2, Status: 503}, []time.Duration{5 * time.Second, 10 * time.Second}, 0},
		{"500", registrytest.Faults{After: 1, Times: 3, Status: 500}, []time.Duration{time.Second, 2 * time.Second, 4 * time.Second}, 0},
		{"down", registrytest.Faults{Times: 2, Down: true}, []time.Duration{time.Second, 2 * time.Second}, 0},
		{"half a page", registrytest.Faults{After: 1, Times: 2, CutOff: true}, []time.Duration{time.Second, 2 * time.Second}, 0},
		{"a page for people", registrytest.Faults{After: 1, Times: 1, Page: true}, []time.Duration{time.Second}, 0},
		{"an hour", registrytest.Faults{After: 1, Status: 429, RetryAfter: "3600"}, nil, time.Hour},
		{"for ever", registrytest.Faults{After: 1, Status: 429}, []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second}, time.Minute},
		{"down for ever", registrytest.Faults{After: 1, Down: true}, []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second}, time.Minute},
		{"refused", registrytest.Faults{After: 1, Status: 403}, nil, time.Minute},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := newMirror(t)
			m.upstream.Fill(30)
			m.upstream.Break(tt.faults)
			report, err := m.keeper.Sync(t.Context())
			if (err != nil) != (tt.ends > 0) {
				t.Fatal(err)
			}
			waits := m.clock.waited()
			if len(waits) != len(tt.least) || report.Waits != len(waits) {
				t.Fatalf("%v, want %v: %+v", waits, tt.least, report)
			}
			for i, least := range tt.least {
				if waits[i] < least || waits[i] > 2*least {
					t.Errorf("%v, want %v", waits, tt.least)
				}
			}
			if s := m.status(); tt.ends > 0 && (s.Failure == nil || s.Failure.RetryAt.Sub(m.clock.Now()) < tt.ends || s.Running == nil) {
				t.Errorf("%+v", s)
			}
			want := 30
			if tt.ends > 0 {
				want = 10
			}
			if len(m.listed()) != want {
				t.Errorf("%d are listed, want %d", len(m.listed()), want)
			}
		})
	}
}

// An upstream that wants to be left alone in the middle of a full crawl takes nothing away: what
// was read before is served. Nobody asks it before its time, neither another process nor
// somebody who wants a round now.
func TestBusyUpstreamIsLeftAlone(t *testing.T) {
	m := newMirror(t)
	m.upstream.Fill(60)
	m.sync(registry.Order{})
	for i := range 20 {
		m.upstream.Remove(fmt.Sprintf("com.example/server-%06d", i+1), "1.0.0")
	}
	m.later(8 * 24 * time.Hour)
	m.upstream.Break(registrytest.Faults{After: 2, Status: 429, RetryAfter: "3600"})
	if _, err := m.fails(); !errors.Is(err, registry.ErrBusy) {
		t.Fatal(err)
	}
	handler, err := registry.NewHandler(registry.HandlerConfig{Catalogue: m.catalogue})
	if err != nil {
		t.Fatal(err)
	}
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v0.1/servers?limit=100", nil))
	if n := strings.Count(answer.Body.String(), `"server":`); answer.Code != http.StatusOK || n != 60 || len(m.listed()) != 60 {
		t.Errorf("%d: %d are served, %d listed", answer.Code, n, len(m.listed()))
	}
	m.upstream.Mend()
	failure := m.status().Failure
	m.asked()
	for name, order := range map[string]registry.Order{"a round": {}, "everything": {Full: true}, "whatever is missing": {AcceptShrink: true}} {
		m.restart(nil)
		m.later(10 * time.Minute)
		if _, err := m.keeper.SyncWith(t.Context(), order); !errors.Is(err, registry.ErrBusy) || !strings.Contains(err.Error(), failure.NotBefore.Format(time.RFC3339)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	until := failure.NotBefore
	m.restart(func(c *registry.AggregatorConfig) {
		c.Wait = func(ctx context.Context, d time.Duration) error {
			if m.later(d); !m.clock.Now().Before(until) {
				stop()
			}
			return ctx.Err()
		}
	})
	if err := m.keeper.Run(ctx); err != nil {
		t.Error(err)
	}
	if asked := m.asked(); len(asked) > 0 || *m.status().Failure != *failure {
		t.Errorf("before %s it was asked %v: %+v", until, asked, m.status().Failure)
	}
	if report := m.sync(registry.Order{}); !report.Resumed {
		t.Errorf("%+v", report)
	}
	if failure := m.status().Failure; failure != nil {
		t.Errorf("%+v", failure)
	}
}

// What cannot be used is counted, and the rest is.
func TestFaultyLists(t *testing.T) {
	for _, tt := range []struct {
		name    string
		faults  registrytest.Faults
		invalid int // on a page
		err     error
	}{
		{"invalid", registrytest.Faults{Invalid: []string{`{}`, `"text"`, `{"server":{"name":"com.example/bad","version":"1.0.0"}}`}}, 3, nil},
		{"duplicates", registrytest.Faults{Duplicates: true}, 0, nil},
		{"miscounted", registrytest.Faults{Miscount: true}, 0, nil},
		{"a loop", registrytest.Faults{CursorLoop: true}, 0, registry.ErrEndless},
		{"endless", registrytest.Faults{Endless: true}, 0, registry.ErrEndless},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := newMirror(t)
			m.upstream.Fill(12)
			m.sync(registry.Order{})
			m.upstream.Add("com.example/server-000013", "1.0.0")
			m.upstream.Break(tt.faults)
			report, err := m.keeper.SyncWith(t.Context(), registry.Order{Full: true})
			if !errors.Is(err, tt.err) {
				t.Fatal(err)
			}
			if report.Invalid != 2*tt.invalid || tt.invalid > 0 && len(report.Examples) == 0 {
				t.Errorf("%+v", report)
			}
			if tt.err == nil && (report.Added != 1 || len(m.listed()) != 13) {
				t.Errorf("%+v", report)
			}
			if s := m.status(); tt.err != nil && (s.Failure == nil || s.Running != nil) {
				t.Errorf("where to go on leads in circles: %+v", s)
			}
			m.upstream.Mend()
			m.sync(registry.Order{Full: true})
			if len(m.listed()) != 13 || m.status().Failure != nil {
				t.Errorf("%v", m.listed())
			}
		})
	}
}

// A loop is found across faults as well.
func TestLoopAcrossFaults(t *testing.T) {
	var n atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1)%2 == 0 {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		fmt.Fprintf(w, `{"servers":[{"server":%s}],"metadata":{"nextCursor":"%d"}}`, registrytest.Record("com.example/notes", "1.0.0"), n.Load()%10)
	}))
	t.Cleanup(server.Close)
	m := newMirror(t)
	m.restart(func(c *registry.AggregatorConfig) { c.Client = newClient(t, registry.ClientConfig{Base: server.URL}) })
	if _, err := m.fails(); !errors.Is(err, registry.ErrEndless) || n.Load() > 20 {
		t.Errorf("after %d requests: %v", n.Load(), err)
	}
}

// A registry that takes a record away may leave nothing that can be read of it. That it is
// deleted is heard all the same.
func TestDeletedAndErased(t *testing.T) {
	m := newMirror(t)
	m.upstream.Fill(3)
	m.sync(registry.Order{})
	m.upstream.Rewrite("com.example/server-000002", "1.0.0", `{"name":"com.example/server-000002","version":"1.0.0","description":""}`)
	if report := m.sync(registry.Order{}); report.Invalid != 1 || len(m.listed()) != 3 {
		t.Errorf("%+v", report)
	}
	m.upstream.SetStatus("com.example/server-000002", "1.0.0", registry.StatusDeleted, "malware")
	report := m.sync(registry.Order{})
	e := m.entry("com.example/server-000002", "1.0.0")
	if report.Deleted != 1 || e.Status != "deleted" || e.StatusMessage != "malware" || string(e.Server) != registrytest.Record(e.Name, e.Version) {
		t.Errorf("%+v %+v", report, e)
	}
}

// What the store has no room for is left out, and nothing else.
func TestTooLongForTheStore(t *testing.T) {
	m := newMirror(t)
	m.upstream.Fill(3)
	m.upstream.Publish(registrytest.Record("com.example/notes", strings.Repeat("𝟙", 200)))
	m.upstream.Publish(registrytest.Record("com.example/notes", strings.Repeat("1", 200)))
	if report := m.sync(registry.Order{}); report.Invalid != 1 || len(m.listed()) != 4 {
		t.Errorf("%+v", report)
	}
}

// A page with more than its limit is taken in pieces.
func TestEnormousPage(t *testing.T) {
	const n = 2500
	items := make([]string, n)
	for i := range items {
		items[i] = `{"server":` + registrytest.Record(fmt.Sprintf("com.example/server-%06d", i), "1.0.0") + `}`
	}
	m := newMirror(t)
	base := body(t, `{"servers":[`+strings.Join(items, ",")+`]}`)
	m.restart(func(c *registry.AggregatorConfig) { c.Client = newClient(t, registry.ClientConfig{Base: base}) })
	if report := m.sync(registry.Order{}); report.Added != n || len(m.listed()) != n {
		t.Errorf("%+v", report)
	}
}

// An upstream that does not answer is not waited for longer than a request may take, nor
// longer than the caller.
func TestSlow(t *testing.T) {
	m := newMirror(t)
	m.upstream.Fill(15)
	hold := make(chan struct{})
	m.upstream.Break(registrytest.Faults{After: 1, Hold: hold})
	m.restart(func(c *registry.AggregatorConfig) {
		c.Client = newClient(t, registry.ClientConfig{Base: m.upstream.URL(), PageSize: 10, Timeout: 50 * time.Millisecond})
	})
	if _, err := m.fails(); !errors.Is(err, context.DeadlineExceeded) || len(m.listed()) != 10 {
		t.Errorf("%v", err)
	}
	m.restart(nil)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := m.keeper.Sync(ctx)
		done <- err
	}()
	asked := len(m.upstream.Requests())
	eventually(t, "the upstream is asked", func() bool { return len(m.upstream.Requests()) > asked })
	cancel()
	select {
	case err := <-done:
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the round does not end with its context")
	}
	if s := m.status(); s.Writer != "" || s.Failure == nil || s.Failure.Times != 1 {
		t.Errorf("%+v", s)
	}
	close(hold)
	if report := m.sync(registry.Order{}); len(m.listed()) != 15 || !report.Resumed {
		t.Errorf("%+v", report)
	}
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if done() {
			return
		}
	}
	t.Fatalf("still not so: %s", what)
}

// While the upstream is away, and the store now and then, everything is served that was read,
// and nothing of it is lost.
func TestStoreFaults(t *testing.T) {
	m := newMirror(t)
	m.upstream.Fill(80)
	for _, lose := range []func(){
		func() { m.faults.LoseRequests(3) }, func() { m.faults.LoseReplies(3) }, func() { m.faults.LoseReplies(40) }, func() { m.faults.LoseRequests(40) },
	} {
		lose()
		if _, err := m.keeper.SyncWith(t.Context(), registry.Order{Full: true}); err != nil {
			t.Logf("%v", err)
		}
		m.restart(nil)
	}
	m.faults.SetDown(true)
	if _, err := m.keeper.Sync(t.Context()); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("the store is down: %v", err)
	}
	m.faults.SetDown(false)
	m.sync(registry.Order{Full: true})
	if s := m.status(); len(m.listed()) != 80 || s.Rows != 80 || s.Servers != 80 || s.Failure != nil {
		t.Errorf("%d are listed: %+v", len(m.listed()), s)
	}
}

// A page that the store did not take is not passed over.
func TestPageIsNotPassedOver(t *testing.T) {
	m := newMirror(t)
	m.upstream.Fill(50)
	waits := 0
	m.restart(func(c *registry.AggregatorConfig) {
		c.Progress = func(r registry.Report) { m.faults.SetDown(r.Pages == 2) }
		c.Wait = func(context.Context, time.Duration) error {
			if waits++; waits == 8 { // that was the last try
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
	if report := m.sync(registry.Order{}); !report.Resumed || report.Items != 50 || len(m.listed()) != 50 {
		t.Errorf("%+v: %d", report, len(m.listed()))
	}
}

// Readers see pages of the upstream as a whole or not at all, while it is crawled and while
// whole servers change.
func TestReadersSeeWholePages(t *testing.T) {
	m := newMirror(t)
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
	m.sync(registry.Order{})
	for round := range 3 { // each change of a page goes with the row that is the latest before
		for i := range 10 * pages {
			m.upstream.Add(fmt.Sprintf("com.example/server-%06d", i+1), fmt.Sprintf("1.%d.0", round+1))
		}
		m.restart(func(c *registry.AggregatorConfig) {
			c.Client = newClient(t, registry.ClientConfig{Base: m.upstream.URL(), PageSize: 10 * (round + 2)})
		})
		m.sync(registry.Order{Full: true})
	}
	eventually(t, "somebody reads", func() bool { return reads.Load() > 2 })
	stop()
	reading.Wait()
}

// readWhole reads everything in one page and checks that it is whole: each server has one
// latest version, and the servers that are there at all are the first so many tens.
func (m *mirror) readWhole(ctx context.Context) {
	page, err := m.catalogue.Page(ctx, catalogue.Query{}, "", 1000)
	if err != nil {
		if ctx.Err() == nil {
			m.Error(err)
		}
		return
	}
	servers, latest := map[string]int{}, map[string]int{}
	for _, e := range page.Entries {
		servers[e.Name]++
		if e.Latest {
			latest[e.Name]++
		}
	}
	if len(servers)%10 != 0 {
		m.Errorf("%d servers: half a page", len(servers))
	}
	for name := range servers {
		if latest[name] != 1 {
			m.Errorf("%s has %d latest versions", name, latest[name])
		}
	}
}

// Of two processes one crawls. The other one says who it is, and takes over when that one is
// gone.
func TestTwoAggregators(t *testing.T) {
	m := newMirror(t)
	m.upstream.Fill(60)
	hold := make(chan struct{})
	m.upstream.Break(registrytest.Faults{After: 2, Hold: hold})
	m.restart(func(c *registry.AggregatorConfig) { c.Owner = "the first" })
	first := m.keeper
	ended := make(chan error, 1)
	go func() {
		_, err := first.Sync(t.Context())
		ended <- err
	}()
	eventually(t, "the first one is at it", func() bool { return m.status().Running != nil && m.status().Running.Pages == 2 })
	m.restart(func(c *registry.AggregatorConfig) { c.Owner = "the second" })
	_, err := m.keeper.Sync(t.Context())
	var elsewhere *catalogue.LeasedError
	if !errors.As(err, &elsewhere) || elsewhere.Owner != "the first" || m.status().Writer != "the first" {
		t.Errorf("%v", err)
	}
	close(hold)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if report := m.sync(registry.Order{}); report.Mode != registry.ModeIncrement || len(m.listed()) != 60 {
		t.Errorf("%+v", report)
	}
}

// Run asks when it is time, in one of several processes, and whatever went wrong before.
func TestRun(t *testing.T) {
	m := newMirror(t)
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
		m.restart(func(c *registry.AggregatorConfig) {
			c.Owner, c.Look = fmt.Sprint(i), time.Minute
			c.Progress = func(r registry.Report) { // of one process at a time: it has the lease
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
	for i := 1; i < len(rounds); i++ { // half of a tenth was drawn, and each looks once a minute
		if between := rounds[i] - rounds[i-1]; between < time.Hour+3*time.Minute || between > time.Hour+4*time.Minute {
			t.Errorf("%s between two rounds", between)
		}
	}
	if len(m.listed()) != 30 {
		t.Errorf("%d are listed", len(m.listed()))
	}
}

// turns lets several processes wait on one clock: it goes on when all of them wait, to where
// the first of them wants to go on, and that one goes on alone.
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

// next returns who goes on, -1 for nobody yet.
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

// After a fault it is tried again before the hour is over, less and less often, and an
// upstream that wants to be left alone is.
func TestRunAfterFaults(t *testing.T) {
	for _, tt := range []struct {
		name   string
		faults registrytest.Faults
		rounds [2]int // in three hours
	}{
		{"down", registrytest.Faults{Down: true}, [2]int{6, 9}},
		{"busy for two hours", registrytest.Faults{Status: 429, RetryAfter: "7200"}, [2]int{2, 2}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := newMirror(t)
			m.upstream.Fill(3)
			m.upstream.Break(tt.faults)
			at := m.clock.Now()
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			m.restart(func(c *registry.AggregatorConfig) {
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
			m.later(2 * time.Hour) // it is asked no sooner
			m.sync(registry.Order{})
			if s := m.status(); s.Failure != nil || !slices.Equal(m.listed(), []string{"com.example/server-000001 1.0.0", "com.example/server-000002 1.0.0", "com.example/server-000003 1.0.0"}) {
				t.Errorf("%+v", s)
			}
		})
	}
}

// Servers of our own appear whatever the upstream does, and what another process has left
// unfinished is finished before an hour is over.
func TestRunLooks(t *testing.T) {
	m := newMirror(t)
	m.upstream.Fill(30)
	m.sync(registry.Order{})
	m.upstream.Add("com.example/server-000031", "1.0.0")
	m.upstream.Break(registrytest.Faults{Down: true})
	m.later(2 * time.Hour)
	at := m.clock.Now()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var own []registry.Item
	m.restart(func(c *registry.AggregatorConfig) {
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
		t.Errorf("a server of our own appears after %s: %+v", late, m.status())
	}

	m.upstream.Mend()
	m.sync(registry.Order{})
	m.upstream.Break(registrytest.Faults{After: 1, Down: true})
	dying, die := context.WithCancel(t.Context())
	m.restart(func(c *registry.AggregatorConfig) {
		c.Wait = func(context.Context, time.Duration) error {
			die() // in the middle of a crawl
			return context.Canceled
		}
	})
	if _, err := m.keeper.SyncWith(dying, registry.Order{Full: true}); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	m.upstream.Mend()
	at = m.clock.Now()
	ctx, stop = context.WithCancel(t.Context())
	defer stop()
	m.restart(func(c *registry.AggregatorConfig) {
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

type transport func(*http.Request) (*http.Response, error)

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

// What the store could not be told is not tried again and again.
func TestRunWithoutStore(t *testing.T) {
	m := newMirror(t)
	m.upstream.Fill(3)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	at := m.clock.Now()
	waits := 0
	m.restart(func(c *registry.AggregatorConfig) {
		c.Client = newClient(t, registry.ClientConfig{Base: m.upstream.URL(), HTTP: &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
			m.faults.SetDown(true) // whenever there would be something to write
			waits = 0
			return http.DefaultTransport.RoundTrip(r)
		})}})
		c.Wait = func(ctx context.Context, d time.Duration) error {
			if m.later(d); m.clock.Now().Sub(at) > 3*time.Hour {
				stop()
			}
			if waits++; waits == 8 { // that was the last try
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
