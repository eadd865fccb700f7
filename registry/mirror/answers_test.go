package mirror_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"gatehouse.example/registry/mirror"
	"gatehouse.example/registry/registrytest"
	"gatehouse.example/registry/upstream"
)

// serving returns the URL of an upstream with a handler.
func serving(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

func (m *fixture) reading(base string) {
	m.Helper()
	m.restart(func(c *mirror.Config) { c.Client = newClient(m.T, upstream.Config{Base: base, Now: m.clock.Now}) })
}

// What one upstream demanded or named is not applied to another: neither its pause nor its ETag.
func TestAnotherUpstreamOwesNothing(t *testing.T) {
	m := newFixture(t)
	list := func(name string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if w.Header().Set("ETag", `"1"`); r.Header.Get("If-None-Match") == `"1"` {
				w.WriteHeader(http.StatusNotModified)
				return
			}
			fmt.Fprintf(w, `{"servers":[{"server":%s}],"metadata":{}}`, registrytest.Record(name, "1.0.0"))
		}
	}
	m.reading(serving(t, list("com.example/first")))
	m.sync(mirror.SyncOptions{})
	m.upstream.Break(registrytest.Faults{Status: 429, RetryAfter: "7200"})
	m.restart(nil)
	m.fails()
	m.reading(serving(t, list("com.example/second")))
	if report := m.sync(mirror.SyncOptions{AcceptShrink: true}); report.NotModified || strings.Join(m.listed(), " ") != "com.example/second 1.0.0" {
		t.Errorf("%+v %q", report, m.listed())
	}
	m.reading(serving(t, list("com.example/third")))
	if report := m.sync(mirror.SyncOptions{}); report.NotModified || report.Added != 1 {
		t.Errorf("%+v", report)
	}
}

// An error that shows no refused cursor does not begin a continued crawl again.
func TestContinuedAfterErrors(t *testing.T) {
	for name, faults := range map[string]registrytest.Faults{
		"down": {Down: true, Times: 1}, "failing": {Status: 500, Times: 1}, "busy": {Status: 503, Times: 1}, "no registry": {Page: true, Times: 1},
	} {
		t.Run(name, func(t *testing.T) {
			m := newFixture(t)
			m.upstream.Fill(30)
			m.upstream.Break(registrytest.Faults{After: 1, Down: true})
			m.fails()
			m.upstream.Break(faults)
			if report := m.sync(mirror.SyncOptions{}); !report.Resumed || report.Restarted || len(m.listed()) != 30 {
				t.Errorf("%+v", report)
			}
		})
	}
}

// An interrupted increment is continued, and by a round that reads everything it is not.
func TestInterruptedIncrement(t *testing.T) {
	for _, full := range []bool{false, true} {
		m := newFixture(t)
		m.upstream.Fill(3)
		m.sync(mirror.SyncOptions{})
		m.upstream.Fill(30)
		m.upstream.Break(registrytest.Faults{After: 1, Down: true})
		m.fails()
		m.upstream.Mend()
		report := m.sync(mirror.SyncOptions{Full: full})
		if report.Resumed == full || (report.Mode == mirror.ModeFull) != full || report.Judged != full || len(m.listed()) != 30 {
			t.Errorf("%+v", report)
		}
	}
}

// A crawl of which no page was read begins anew: it lost nothing, so it decides what is missing, and an
// increment makes room for a full crawl that is due by then.
func TestInterruptedBeforeTheFirstPage(t *testing.T) {
	for name, wait := range map[string]time.Duration{"full": 8 * 24 * time.Hour, "increment": time.Hour} {
		m := newFixture(t)
		m.upstream.Fill(30)
		m.sync(mirror.SyncOptions{})
		m.upstream.Remove("com.example/server-000001", "1.0.0")
		m.later(wait)
		m.upstream.Break(registrytest.Faults{Down: true})
		m.fails()
		if s := m.status(); s.Running == nil || string(s.Running.Mode) != name || s.Running.Pages != 0 {
			t.Fatalf("%s: %+v", name, s)
		}
		m.upstream.Mend()
		m.restart(nil)
		m.later(7*24*time.Hour - time.Hour)
		if report := m.sync(mirror.SyncOptions{}); report.Mode != mirror.ModeFull || report.Resumed || !report.Judged || report.Vanished != 1 {
			t.Errorf("%s: %+v", name, report)
		}
	}
}

// What another request would not mend is asked for once.
func TestAskedOnce(t *testing.T) {
	for name, tt := range map[string]struct {
		answer http.HandlerFunc
		err    error
	}{
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://elsewhere.example.com/", http.StatusFound)
		}, upstream.ErrRedirect},
		"too large": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 2000)) }, upstream.ErrTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			m := newFixture(t)
			base := serving(t, tt.answer)
			m.restart(func(c *mirror.Config) { c.Client = newClient(t, upstream.Config{Base: base, MaxPageBytes: 1000}) })
			if report, err := m.fails(); !errors.Is(err, tt.err) || report.Waits != 0 {
				t.Errorf("%v %+v", err, report)
			}
		})
	}
}

// The texts of an upstream are short in the state that each page of readers reads.
func TestTextsOfTheUpstreamAreShort(t *testing.T) {
	m := newFixture(t)
	long := strings.Repeat("é", 1000)
	m.reading(serving(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, `{"title":%q,"detail":%q}`, long, long)
	}))
	m.fails()
	if text := m.status().Failure.Text; utf8.RuneCountInString(text) != 303 || !strings.HasSuffix(text, "é...") {
		t.Errorf("%d characters: %s", utf8.RuneCountInString(text), text)
	}
	m.later(time.Hour)
	var invalid []string
	for i := range 5 {
		invalid = append(invalid, fmt.Sprintf(`{"server":{"name":"com.example/%s","version":"1.%d.0"}}`, strings.Repeat("n", 180), i))
	}
	m.reading(serving(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"servers":[%s],"metadata":{}}`, strings.Join(invalid, ","))
	}))
	report := m.sync(mirror.SyncOptions{})
	if report.Invalid != 5 || len(report.Examples) != 3 {
		t.Fatalf("%+v", report)
	}
	for _, text := range report.Examples {
		if utf8.RuneCountInString(text) != 163 || !strings.HasPrefix(text, "com.example/nnn") || !strings.HasSuffix(text, "...") {
			t.Errorf("%d characters: %s", utf8.RuneCountInString(text), text)
		}
	}
}
