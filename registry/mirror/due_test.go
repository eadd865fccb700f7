package mirror_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"testing"
	"time"

	"gatehouse.example/registry"
	"gatehouse.example/registry/mirror"
	"gatehouse.example/registry/registrytest"
	"gatehouse.example/registry/upstream"
)

// A mirror with the defaults does a round under the name of its process, waits for the next one, and
// ends with its context.
func TestDefaults(t *testing.T) {
	m := newFixture(t)
	m.upstream.Fill(3)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	writer, looks := "", 0
	m.restart(func(c *mirror.Config) {
		*c = mirror.Config{Catalogue: c.Catalogue, Client: c.Client}
		c.Progress = func(mirror.Report) { writer = m.status().Writer }
		c.Own = func() []registry.Item {
			if looks++; looks > 2 {
				stop()
			}
			return nil
		}
	})
	m.sync(mirror.SyncOptions{})
	if host, err := os.Hostname(); err != nil || writer != fmt.Sprintf("%s:%d", host, os.Getpid()) {
		t.Errorf("%q does the round: %v", writer, err)
	}
	if err := m.keeper.Run(ctx); err != nil || looks < 3 {
		t.Errorf("%v after %d looks", err, looks)
	}
}

// An upstream without a clock is asked for its updates nevertheless.
func TestNoDate(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Date"] = nil
		fmt.Fprintf(w, `{"servers":[{"server":%s}],"metadata":{}}`, registrytest.Record("com.example/notes", "1.0.0"))
	}))
	t.Cleanup(server.Close)
	m := newFixture(t)
	m.restart(func(c *mirror.Config) { c.Client = newClient(t, upstream.Config{Base: server.URL, Now: m.clock.Now}) })
	m.sync(mirror.SyncOptions{})
	if report := m.sync(mirror.SyncOptions{}); report.Mode != mirror.ModeIncrement {
		t.Errorf("%+v", report)
	}
}

// looking runs the mirror until a time has passed or done returns true, and returns the time.
func (m *fixture) looking(most time.Duration, adjust func(*mirror.Config), done func() bool) time.Duration {
	m.Helper()
	at := m.clock.Now()
	ctx, stop := context.WithCancel(m.Context())
	defer stop()
	m.restart(func(c *mirror.Config) {
		if adjust != nil {
			adjust(c)
		}
		c.Wait = func(ctx context.Context, d time.Duration) error {
			if m.later(d); done() || m.clock.Now().Sub(at) > most {
				stop()
			}
			return ctx.Err()
		}
	})
	if err := m.keeper.Run(ctx); err != nil {
		m.Error(err)
	}
	return m.clock.Now().Sub(at)
}

// When the upstream has failed and answers again, the pause after the failure is over: another
// process continues the crawl at once.
func TestPauseEndsWithAPage(t *testing.T) {
	m := newFixture(t)
	m.upstream.Fill(30)
	m.upstream.Break(registrytest.Faults{Down: true})
	m.restart(func(c *mirror.Config) { c.Random = func() float64 { return 1 } })
	for range 8 { // the pause becomes longer each time
		m.fails()
	}
	m.upstream.Mend()
	dying, die := context.WithCancel(t.Context())
	m.restart(func(c *mirror.Config) { c.Progress = func(mirror.Report) { die() } })
	if _, err := m.keeper.SyncWith(dying, mirror.SyncOptions{}); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if took := m.looking(time.Hour, nil, func() bool { return m.status().LastFull != nil }); took > time.Minute || len(m.listed()) != 30 {
		t.Errorf("another process continued after %s: %+v", took, m.status())
	}
}

// After rounds that ended well, changed own servers are published at the next look. When one that hid
// a server of the upstream is removed, that server is read again at once.
func TestOwnAtTheNextLook(t *testing.T) {
	m := newFixture(t)
	const name = "com.example/server-000001"
	m.upstream.Fill(3)
	own := []registry.Item{}
	set := func(c *mirror.Config) { c.Own = func() []registry.Item { return own } }
	var changed time.Time
	m.looking(8*time.Hour, set, func() bool {
		if s := m.status(); changed.IsZero() && s.LastIncrement != nil && s.LastIncrement.Ended.Sub(s.LastFull.Ended) > 4*time.Hour {
			own, changed = ownItems(t, registry.OwnServer{Name: name, URL: "https://notes.example.com/mcp"}), m.clock.Now()
		}
		return !changed.IsZero() && m.entry(name, "1.0.0").Origin == mirror.OriginOwn
	})
	if took := m.clock.Now().Sub(changed); changed.IsZero() || took > time.Minute {
		t.Errorf("published after %s: %+v", took, m.status())
	}
	m.restart(set)
	m.sync(mirror.SyncOptions{Full: true})
	own = []registry.Item{}
	back := func() bool {
		return slices.Contains(m.listed(), name+" 1.0.0") && m.entry(name, "1.0.0").Origin == mirror.OriginUpstream
	}
	if took := m.looking(2*time.Hour, set, back); took > time.Minute || !back() {
		t.Errorf("the server of the upstream is back after %s: %+v", took, m.status())
	}
}

// Another upstream is read at once, not when the round of the one before would be due.
func TestAnotherUpstreamAtOnce(t *testing.T) {
	m := newFixture(t)
	m.upstream.Fill(3)
	m.sync(mirror.SyncOptions{})
	m.upstream = registrytest.New(t)
	m.upstream.Add("com.example/other", "1.0.0")
	if took := m.looking(2*time.Hour, nil, func() bool { return slices.Contains(m.listed(), "com.example/other 1.0.0") }); took > time.Minute {
		t.Errorf("read after %s", took)
	}
}
