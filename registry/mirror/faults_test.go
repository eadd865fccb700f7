package mirror_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gatehouse.example/registry"
	"gatehouse.example/registry/mirror"
	"gatehouse.example/registry/registrytest"
	"gatehouse.example/registry/serve"
	"gatehouse.example/registry/upstream"
)

// A round continues an interrupted crawl, also in another process. It removes no rows then,
// because it does not know all rows that the crawl listed.
func TestInterrupted(t *testing.T) {
	for name, form := range forms {
		t.Run(name, func(t *testing.T) {
			m := newFixture(t)
			m.upstream.SetForm(form)
			m.upstream.Fill(60)
			m.sync(mirror.SyncOptions{})
			m.upstream.Remove("com.example/server-000001", "1.0.0")
			m.later(8 * 24 * time.Hour)
			m.upstream.Break(registrytest.Faults{After: 3, Down: true})
			m.asked()
			if _, err := m.fails(); errors.Is(err, upstream.ErrBusy) {
				t.Error(err)
			}
			s := m.status()
			if s.Running == nil || s.Running.Pages != 3 || s.Failure == nil || s.Failure.Times != 1 || len(m.listed()) != 60 {
				t.Errorf("%+v", s)
			}
			m.upstream.Mend()
			m.asked()
			m.restart(nil)
			report := m.sync(mirror.SyncOptions{})
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
			m.later(25 * time.Hour) // the next full crawl is due early and is complete
			if report := m.sync(mirror.SyncOptions{}); report.Mode != mirror.ModeFull || !report.Judged || report.Vanished != 1 {
				t.Errorf("%+v", report)
			}
		})
	}
}

// With AcceptShrink and AcceptChanged, an interrupted crawl begins again, so that it can determine the
// missing rows and replace the records of the pages before.
func TestAcceptedFromTheBeginning(t *testing.T) {
	m := newFixture(t)
	m.upstream.Fill(60)
	m.sync(mirror.SyncOptions{})
	m.upstream.Reset()
	m.upstream.Fill(25)
	m.upstream.Break(registrytest.Faults{After: 1, Down: true})
	if _, err := m.keeper.SyncWith(t.Context(), mirror.SyncOptions{Full: true}); err == nil || m.status().Running == nil {
		t.Fatal(err)
	}
	m.upstream.Mend()
	report := m.sync(mirror.SyncOptions{AcceptShrink: true})
	if report.Resumed || !report.Judged || report.Vanished != 35 || len(m.listed()) != 25 {
		t.Errorf("%+v", report)
	}
	const name = "com.example/server-000001"
	other := strings.Replace(registrytest.Record(name, "1.0.0"), "What", "Now what", 1)
	m.upstream.RewriteQuietly(name, "1.0.0", other)
	m.upstream.Break(registrytest.Faults{After: 1, Down: true})
	if _, err := m.keeper.SyncWith(t.Context(), mirror.SyncOptions{Full: true}); err == nil || m.status().Running == nil {
		t.Fatal(err)
	}
	m.upstream.Mend()
	if report := m.sync(mirror.SyncOptions{AcceptChanged: true}); report.Resumed || string(m.entry(name, "1.0.0").Server) != other {
		t.Errorf("%+v", report)
	}
}

// What the operator accepts is read, also if the upstream has not changed since the last round.
func TestAcceptedThoughNotModified(t *testing.T) {
	m := newFixture(t)
	m.upstream.SetETags(true)
	m.upstream.Fill(9)
	m.sync(mirror.SyncOptions{})
	const name = "com.example/server-000001"
	other := strings.Replace(registrytest.Record(name, "1.0.0"), "What", "Now what", 1)
	m.upstream.RewriteQuietly(name, "1.0.0", other)
	if report := m.sync(mirror.SyncOptions{Full: true}); report.Changed != 1 {
		t.Errorf("%+v", report)
	}
	if report := m.sync(mirror.SyncOptions{AcceptChanged: true}); report.NotModified || string(m.entry(name, "1.0.0").Server) != other {
		t.Errorf("%+v", report)
	}
}

// If the upstream refuses the stored cursor, the crawl begins again.
func TestRestart(t *testing.T) {
	for _, status := range []int{400, 404, 410, 422} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			m := newFixture(t)
			m.upstream.Fill(45)
			m.upstream.Break(registrytest.Faults{After: 2, Down: true})
			m.fails()
			m.upstream.Break(registrytest.Faults{Times: 1, Status: status})
			if status == 404 { // the client tries both versions of the interface
				m.upstream.Break(registrytest.Faults{Times: 2, Status: status})
			}
			m.restart(nil)
			report := m.sync(mirror.SyncOptions{})
			if !report.Restarted || !report.Judged || report.Pages != 5 || report.Items != 45 || len(m.listed()) != 45 {
				t.Errorf("%+v", report)
			}
		})
	}
}

// A refused cursor in the middle of a crawl is an error of the upstream; the crawl does not
// begin again.
func TestRefusedInTheMiddle(t *testing.T) {
	m := newFixture(t)
	m.upstream.Fill(45)
	m.upstream.Break(registrytest.Faults{After: 2, Times: 1, Status: 400})
	m.fails()
	if s := m.status(); s.Running == nil || s.Running.Pages != 2 {
		t.Errorf("%+v", s)
	}
	if report := m.sync(mirror.SyncOptions{}); !report.Resumed || report.Restarted {
		t.Errorf("%+v", report)
	}
}

// The mirror respects Retry-After.
func TestBusy(t *testing.T) {
	for _, tt := range []struct {
		name   string
		faults registrytest.Faults
		least  []time.Duration // the shortest allowed waits of the round
		ends   time.Duration   // if the round fails: the shortest allowed time until the next one
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
			m := newFixture(t)
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

// If the upstream demands a pause in the middle of a full crawl, the rows stay visible. No
// process sends a request before the end of the pause, not even for an explicit Sync.
func TestBusyUpstreamIsLeftAlone(t *testing.T) {
	m := newFixture(t)
	m.upstream.Fill(60)
	m.sync(mirror.SyncOptions{})
	for i := range 20 {
		m.upstream.Remove(fmt.Sprintf("com.example/server-%06d", i+1), "1.0.0")
	}
	m.later(8 * 24 * time.Hour)
	m.upstream.Break(registrytest.Faults{After: 2, Status: 429, RetryAfter: "3600"})
	if _, err := m.fails(); !errors.Is(err, upstream.ErrBusy) {
		t.Fatal(err)
	}
	handler, err := serve.New(serve.Config{Catalogue: m.catalogue})
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
	for name, order := range map[string]mirror.SyncOptions{"a round": {}, "everything": {Full: true}, "whatever is missing": {AcceptShrink: true}} {
		m.restart(nil)
		m.later(10 * time.Minute)
		if _, err := m.keeper.SyncWith(t.Context(), order); !errors.Is(err, upstream.ErrBusy) || !strings.Contains(err.Error(), failure.NotBefore.Format(time.RFC3339)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	until := failure.NotBefore
	m.restart(func(c *mirror.Config) {
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
	if report := m.sync(mirror.SyncOptions{}); !report.Resumed {
		t.Errorf("%+v", report)
	}
	if failure := m.status().Failure; failure != nil {
		t.Errorf("%+v", failure)
	}
}

// Items that cannot be used are counted, and the others are mirrored.
func TestFaultyLists(t *testing.T) {
	for _, tt := range []struct {
		name    string
		faults  registrytest.Faults
		invalid int // invalid items on a page
		err     error
	}{
		{"invalid", registrytest.Faults{Invalid: []string{`{}`, `"text"`, `{"server":{"name":"com.example/bad","version":"1.0.0"}}`}}, 3, nil},
		{"duplicates", registrytest.Faults{Duplicates: true}, 0, nil},
		{"miscounted", registrytest.Faults{Miscount: true}, 0, nil},
		{"a loop", registrytest.Faults{CursorLoop: true}, 0, upstream.ErrEndless},
		{"endless", registrytest.Faults{Endless: true}, 0, upstream.ErrEndless},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := newFixture(t)
			m.upstream.Fill(12)
			m.sync(mirror.SyncOptions{})
			m.upstream.Add("com.example/server-000013", "1.0.0")
			m.upstream.Break(tt.faults)
			report, err := m.keeper.SyncWith(t.Context(), mirror.SyncOptions{Full: true})
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
			m.sync(mirror.SyncOptions{Full: true})
			if len(m.listed()) != 13 || m.status().Failure != nil {
				t.Errorf("%v", m.listed())
			}
		})
	}
}

// A repeated cursor is detected even if a failure lies between the pages.
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
	m := newFixture(t)
	m.restart(func(c *mirror.Config) { c.Client = newClient(t, upstream.Config{Base: server.URL}) })
	if _, err := m.fails(); !errors.Is(err, upstream.ErrEndless) || n.Load() > 20 {
		t.Errorf("after %d requests: %v", n.Load(), err)
	}
}

// A list that never ends is given up after the pages of one crawl, even if requests fail or the
// process restarts in between.
func TestEndlessAcrossFaults(t *testing.T) {
	var n atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch i := n.Add(1); {
		case i > 100:
			w.WriteHeader(http.StatusForbidden)
		case i%2 == 0:
			w.WriteHeader(http.StatusInternalServerError)
		default:
			fmt.Fprintf(w, `{"servers":[{"server":%s}],"metadata":{"nextCursor":"%d"}}`, registrytest.Record("com.example/notes", "1.0.0"), i)
		}
	}))
	t.Cleanup(server.Close)
	m := newFixture(t)
	bounded := func(c *mirror.Config) { c.Client = newClient(t, upstream.Config{Base: server.URL, MaxPages: 12}) }
	ctx, stop := context.WithCancel(t.Context())
	m.restart(func(c *mirror.Config) {
		bounded(c)
		c.Progress = func(r mirror.Report) {
			if r.Pages == 5 {
				stop()
			}
		}
	})
	if _, err := m.keeper.SyncWith(ctx, mirror.SyncOptions{}); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	m.restart(bounded)
	report, err := m.fails()
	if !errors.Is(err, upstream.ErrEndless) || !report.Resumed || report.Pages != 12 || m.status().Running != nil {
		t.Errorf("after %d requests: %v %+v", n.Load(), err, report)
	}
}

// A registry may empty the record of a deleted version. The mirror applies the deletion although
// the record is invalid.
func TestDeletedAndErased(t *testing.T) {
	m := newFixture(t)
	m.upstream.Fill(3)
	m.sync(mirror.SyncOptions{})
	m.upstream.Rewrite("com.example/server-000002", "1.0.0", `{"name":"com.example/server-000002","version":"1.0.0","description":""}`)
	if report := m.sync(mirror.SyncOptions{}); report.Invalid != 1 || len(m.listed()) != 3 {
		t.Errorf("%+v", report)
	}
	m.upstream.SetStatus("com.example/server-000002", "1.0.0", registry.StatusDeleted, "malware")
	report := m.sync(mirror.SyncOptions{})
	e := m.entry("com.example/server-000002", "1.0.0")
	if report.Deleted != 1 || e.Status != "deleted" || e.StatusMessage != "malware" || string(e.Server) != registrytest.Record(e.Name, e.Version) {
		t.Errorf("%+v %+v", report, e)
	}
}

// Items that exceed the limits of the catalogue are left out, and no others.
func TestTooLongForTheStore(t *testing.T) {
	m := newFixture(t)
	m.upstream.Fill(3)
	m.upstream.Publish(registrytest.Record("com.example/notes", strings.Repeat("𝟙", 200)))
	m.upstream.Publish(registrytest.Record("com.example/notes", strings.Repeat("1", 200)))
	if report := m.sync(mirror.SyncOptions{}); report.Invalid != 1 || len(m.listed()) != 4 {
		t.Errorf("%+v", report)
	}
}

// A page above the limits of a commit is committed in parts.
func TestEnormousPage(t *testing.T) {
	const n = 2500
	items := make([]string, n)
	for i := range items {
		items[i] = `{"server":` + registrytest.Record(fmt.Sprintf("com.example/server-%06d", i), "1.0.0") + `}`
	}
	m := newFixture(t)
	base := body(t, `{"servers":[`+strings.Join(items, ",")+`]}`)
	m.restart(func(c *mirror.Config) { c.Client = newClient(t, upstream.Config{Base: base}) })
	if report := m.sync(mirror.SyncOptions{}); report.Added != n || len(m.listed()) != n {
		t.Errorf("%+v", report)
	}
}

// The wait for an upstream that does not answer ends with the time limit of the request or with
// the context of the caller.
func TestSlow(t *testing.T) {
	m := newFixture(t)
	m.upstream.Fill(15)
	hold := make(chan struct{})
	m.upstream.Break(registrytest.Faults{After: 1, Hold: hold})
	m.restart(func(c *mirror.Config) {
		c.Client = newClient(t, upstream.Config{Base: m.upstream.URL(), PageSize: 10, Timeout: 50 * time.Millisecond})
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
	if report := m.sync(mirror.SyncOptions{}); len(m.listed()) != 15 || !report.Resumed {
		t.Errorf("%+v", report)
	}
}
