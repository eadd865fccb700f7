package metrics_test

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"gatehouse.example/authz"
	"gatehouse.example/cmd/authz/internal/metrics"
	"gatehouse.example/middleware"
	"gatehouse.example/safefetch"
	"gatehouse.example/storage"
	"gatehouse.example/storage/redis"
	"gatehouse.example/storage/storagetest"
)

func newRegistry() *metrics.Registry {
	return metrics.New("v1.2.3", "go1.99", slog.New(slog.DiscardHandler))
}

// series returns the value of each series that a scrape shows.
func series(t *testing.T, m *metrics.Registry) map[string]string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	out := map[string]string{}
	for line := range strings.Lines(w.Body.String()) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "} "); ok && strings.HasPrefix(line, "gatehouse_") {
			out[name+"}"] = value
		} else if name, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && strings.HasPrefix(line, "gatehouse_") {
			out[name] = value
		}
	}
	return out
}

// moved returns the series that differ between two scrapes, without those of time.
func moved(before, after map[string]string) map[string]string {
	out := map[string]string{}
	for name, value := range after {
		if before[name] != value && !strings.Contains(name, "_bucket") && !strings.Contains(name, "_sum") {
			out[name] = value
		}
	}
	return out
}

// Each combination of grant type and code is one series, and an observation moves its own series by one and
// no other.
func TestEachObservationMovesItsSeries(t *testing.T) {
	m := newRegistry()
	server := metrics.NewServer(m)
	before := series(t, m)
	check := func(o authz.Observation, want ...string) {
		t.Helper()
		server.Observe(o)
		after := series(t, m)
		got := moved(before, after)
		for _, name := range want {
			if got[name] != "1" {
				t.Errorf("%+v: %s is %q", o, name, got[name])
			}
			delete(got, name)
		}
		if len(got) > 0 || len(after) != len(before) {
			t.Errorf("%+v moves %v, and makes %d series", o, got, len(after)-len(before))
		}
		before = after
	}
	for grant, label := range map[authz.GrantType]string{"": "none", authz.GrantCode: "authorization_code", authz.GrantRefresh: "refresh_token"} {
		for _, code := range authz.Codes() {
			check(authz.Observation{What: authz.Refused, Grant: grant, Code: code}, fmt.Sprintf("gatehouse_refused_total{code=%q,grant_type=%q}", code, label))
		}
	}
	for status, outcome := range map[int]string{200: "ok", 303: "redirected", 400: "refused", 429: "limited", 500: "failed", 503: "unavailable", 0: "aborted"} {
		endpoint := authz.Endpoint("/token")
		if status == 303 {
			endpoint = "/consent"
		}
		server.Observe(authz.Observation{What: authz.Answered, Endpoint: endpoint, Status: status, Took: time.Millisecond})
		after := series(t, m)
		if name := fmt.Sprintf("gatehouse_requests_total{endpoint=%q,outcome=%q}", endpoint, outcome); moved(before, after)[name] != "1" || len(moved(before, after)) != 2 {
			t.Errorf("status %d moves %v", status, moved(before, after))
		}
		before = after
	}
	for _, name := range authz.LimitNames() {
		check(authz.Observation{What: authz.LimitReached, Limit: name}, fmt.Sprintf("gatehouse_limited_total{limit=%q}", name))
	}
	check(authz.Observation{What: authz.TokensIssued, Grant: authz.GrantCode}, `gatehouse_tokens_issued_total{grant_type="authorization_code"}`)
	check(authz.Observation{What: authz.TokensIssued, Grant: authz.GrantRefresh}, `gatehouse_tokens_issued_total{grant_type="refresh_token"}`)
	check(authz.Observation{What: authz.RefreshRepeated}, `gatehouse_replays_total{kind="refresh_repeated"}`)
	check(authz.Observation{What: authz.RefreshRecovered}, `gatehouse_replays_total{kind="refresh_recovered"}`)
	check(authz.Observation{What: authz.RefreshReused}, `gatehouse_replays_total{kind="refresh_reused"}`)
	check(authz.Observation{What: authz.CodeReused}, `gatehouse_replays_total{kind="code_reused"}`)
	check(authz.Observation{What: authz.SignedIn, Method: authz.SignInPasskey}, `gatehouse_sign_ins_total{method="passkey",outcome="signed_in"}`)
	check(authz.Observation{What: authz.SignInRefused, Method: authz.SignInCode}, `gatehouse_sign_ins_total{method="code",outcome="refused"}`)
}

// Values that are in no list make no series: a code is counted as other, the rest not at all.
func TestUnknownValuesMakeNoSeries(t *testing.T) {
	m := newRegistry()
	server, resource := metrics.NewServer(m), metrics.NewGateways(m).Resource("https://notes.example.com/mcp")
	before := series(t, m)
	for i := range 100 {
		junk := fmt.Sprintf("junk-%d", i)
		server.Observe(authz.Observation{What: authz.Answered, Endpoint: authz.Endpoint(junk), Status: i})
		server.Observe(authz.Observation{What: authz.Refused, Grant: authz.GrantType(junk), Code: junk})
		server.Observe(authz.Observation{What: authz.Refused, Code: junk})
		server.Observe(authz.Observation{What: authz.TokensIssued, Grant: authz.GrantType(junk)})
		server.Observe(authz.Observation{What: authz.SignedIn, Method: authz.SignInMethod(junk)})
		server.Observe(authz.Observation{What: authz.What(1000 + i)})
		server.Fetched(errors.New(junk), time.Second)
		resource.Decided(nil, middleware.Event{Status: 400 + i, Code: junk})
		resource.Forwarded(200+i, time.Second)
	}
	after := series(t, m)
	if got := after[`gatehouse_refused_total{code="other",grant_type="none"}`]; got != "100" || len(after) != len(before) {
		t.Errorf("%s refusals with another code, want 100; %d series, before there were %d", got, len(after), len(before))
	}
}

// Fetches are counted by the sentinel of their error, and their time unless they never began.
func TestFetches(t *testing.T) {
	m := newRegistry()
	server := metrics.NewServer(m)
	server.Fetched(nil, time.Second)
	server.Fetched(&safefetch.Error{Err: safefetch.ErrRefused}, time.Second)
	server.Fetched(fmt.Errorf("wrapped: %w", &safefetch.Error{Err: safefetch.ErrBusy}), 0)
	server.Fetched(&safefetch.Error{Err: errors.New("of a later release")}, time.Second)
	got := series(t, m)
	for outcome, want := range map[string]string{"ok": "1", "refused": "1", "busy": "1", "status": "0", "other": "1"} {
		if n := got[`gatehouse_fetches_total{outcome="`+outcome+`"}`]; n != want {
			t.Errorf("%s: %s, want %s", outcome, n, want)
		}
	}
	if n := got["gatehouse_fetch_duration_seconds_count"]; n != "3" {
		t.Errorf("%s times were observed, want those of 3 fetches", n)
	}
}

// A gateway counts decisions and answers under its configured name only.
func TestGateway(t *testing.T) {
	m := newRegistry()
	all := metrics.NewGateways(m)
	notes, tasks := all.Resource("https://notes.example.com/mcp"), all.Resource("https://tasks.example.com/mcp")
	notes.Decided(nil, middleware.Event{})
	notes.Decided(nil, middleware.Event{Status: 403, Code: "insufficient_scope"})
	tasks.Decided(nil, middleware.Event{Status: 404})
	tasks.Decided(nil, middleware.Event{Status: 502})
	tasks.Forwarded(0, time.Second)
	got := series(t, m)
	for name, want := range map[string]string{
		`gatehouse_gateway_decisions_total{code="",resource="https://notes.example.com/mcp",status=""}`:                      "1",
		`gatehouse_gateway_decisions_total{code="insufficient_scope",resource="https://notes.example.com/mcp",status="403"}`: "1",
		`gatehouse_gateway_decisions_total{code="other",resource="https://tasks.example.com/mcp",status="4xx"}`:              "1",
		`gatehouse_gateway_decisions_total{code="other",resource="https://notes.example.com/mcp",status="4xx"}`:              "0",
		`gatehouse_gateway_decisions_total{code="other",resource="https://tasks.example.com/mcp",status="5xx"}`:              "1",
		`gatehouse_gateway_upstream_duration_seconds_count{resource="https://tasks.example.com/mcp"}`:                        "1",
		`gatehouse_gateway_upstream_duration_seconds_count{resource="https://notes.example.com/mcp"}`:                        "0",
		`gatehouse_gateway_upstream_answers_total{outcome="aborted",resource="https://tasks.example.com/mcp"}`:               "1",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %s", name, got[name], want)
		}
	}
}

// measured is a store whose calls are counted, over one that can fail.
func measured(t *testing.T) (*metrics.Registry, storage.Backend, *storagetest.Faults) {
	t.Helper()
	embedded, err := redis.Open(t.Context(), redis.Options{URL: "embedded:"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = embedded.Close() })
	m, faults := newRegistry(), storagetest.NewFaults(embedded)
	return m, metrics.Store(m, faults), faults
}

// slow is a collector that takes as long as a test wants.
type slow struct{ arrived, release chan struct{} }

func (slow) Describe(descs chan<- *prometheus.Desc) { descs <- slowly }
func (c slow) Collect(out chan<- prometheus.Metric) {
	c.arrived <- struct{}{}
	<-c.release
	out <- prometheus.MustNewConstMetric(slowly, prometheus.GaugeValue, 1)
}

var slowly = prometheus.NewDesc("gatehouse_slow", "Takes its time.", nil, nil)

// Four scrapes run at a time, and a fifth gets 503.
func TestScrapesAreBounded(t *testing.T) {
	m, held := newRegistry(), slow{make(chan struct{}), make(chan struct{})}
	m.MustRegister(held)
	handler := m.Handler()
	scrape := func() int {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		return w.Code
	}
	var four sync.WaitGroup
	for range 4 {
		four.Go(func() {
			if got := scrape(); got != http.StatusOK {
				t.Errorf("one of four gets %d", got)
			}
		})
		<-held.arrived
	}
	if got := scrape(); got != http.StatusServiceUnavailable {
		t.Errorf("the fifth gets %d", got)
	}
	close(held.release)
	four.Wait()
}

// Scrapes while everything is counted neither block it nor lose a count, and few run at a time.
func TestScrapesUnderLoad(t *testing.T) {
	m := newRegistry()
	server := metrics.NewServer(m)
	const each, workers = 500, 8
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for range each {
				server.Observe(authz.Observation{What: authz.Answered, Endpoint: "/token", Status: 200, Took: time.Millisecond})
			}
		})
	}
	handler := m.Handler()
	for range workers {
		all.Go(func() {
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
			if _, _ = io.Copy(io.Discard, w.Body); w.Code != http.StatusOK && w.Code != http.StatusServiceUnavailable {
				t.Errorf("a scrape got %d", w.Code)
			}
		})
	}
	all.Wait()
	if got := series(t, m)[`gatehouse_requests_total{endpoint="/token",outcome="ok"}`]; got != fmt.Sprint(each*workers) {
		t.Errorf("%s requests, want %d", got, each*workers)
	}
}
