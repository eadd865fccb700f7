package registry_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gatehouse.example/registry"
	"gatehouse.example/registry/registrytest"
	"gatehouse.example/storage"
	"gatehouse.example/storage/catalogue"
	"gatehouse.example/storage/redis"
	"gatehouse.example/storage/storagetest"
)

// newCatalogue opens a catalogue in an embedded store that can be made to fail.
func newCatalogue(t *testing.T) (*catalogue.Catalogue, *storagetest.Faults) {
	t.Helper()
	backend, err := redis.Open(t.Context(), redis.Options{URL: "embedded:"})
	if err != nil {
		t.Fatal(err)
	}
	faults := storagetest.NewFaults(backend)
	return catalogueOn(t, faults), faults
}

// catalogueOn returns the catalogue on a backend, which is closed at the end of the test.
func catalogueOn(t testing.TB, backend storage.Backend) *catalogue.Catalogue {
	t.Helper()
	store, err := storage.New(backend, storage.Options{Issuer: "https://registry.example.com"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return catalogue.New(store)
}

// waiting is a clock on which time passes when somebody waits.
type waiting struct {
	mu    sync.Mutex
	now   time.Time
	waits []time.Duration
}

func (c *waiting) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *waiting) Wait(ctx context.Context, d time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	c.waits = append(c.waits, d)
	return ctx.Err()
}

// waited returns how long was waited since the last call.
func (c *waiting) waited() []time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	waits := c.waits
	c.waits = nil
	return waits
}

// logs is what was logged.
type logs struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// mirror is an upstream, a catalogue, and what keeps the one like the other.
type mirror struct {
	*testing.T
	upstream  *registrytest.Upstream
	catalogue *catalogue.Catalogue
	faults    *storagetest.Faults
	clock     *waiting
	logs      *logs
	keeper    *registry.Aggregator
}

func newMirror(t *testing.T) *mirror {
	t.Helper()
	m := &mirror{T: t, upstream: registrytest.New(t), clock: &waiting{now: registrytest.Epoch.Add(24 * time.Hour)}, logs: &logs{}}
	m.catalogue, m.faults = newCatalogue(t)
	m.restart(nil)
	return m
}

// restart puts another aggregator over the same catalogue, as another process does.
func (m *mirror) restart(adjust func(*registry.AggregatorConfig)) {
	m.Helper()
	c := registry.AggregatorConfig{
		Catalogue: m.catalogue, Client: newClient(m.T, registry.ClientConfig{Base: m.upstream.URL(), Now: m.clock.Now, PageSize: 10}),
		Now: m.clock.Now, Wait: m.clock.Wait, Random: func() float64 { return 0.5 }, MetaKey: "com.example.registry/catalogue",
		Logger: slog.New(slog.NewTextHandler(m.logs, nil)),
	}
	if adjust != nil {
		adjust(&c)
	}
	var err error
	if m.keeper, err = registry.NewAggregator(c); err != nil {
		m.Fatal(err)
	}
}

// sync does a round that must end well.
func (m *mirror) sync(o registry.Order) registry.Report {
	m.Helper()
	report, err := m.keeper.SyncWith(m.Context(), o)
	if err != nil {
		m.Fatalf("%v\n%s", err, m.logs)
	}
	return report
}

// fails does a round that must not end well.
func (m *mirror) fails() (registry.Report, error) {
	m.Helper()
	report, err := m.keeper.Sync(m.Context())
	if err == nil {
		m.Fatalf("the round ended well: %+v", report)
	}
	return report, err
}

// later lets time pass.
func (m *mirror) later(d time.Duration) {
	m.clock.mu.Lock()
	defer m.clock.mu.Unlock()
	m.clock.now = m.clock.now.Add(d)
}

func (m *mirror) status() registry.SyncStatus {
	m.Helper()
	s, err := m.keeper.Status(m.Context())
	if err != nil {
		m.Fatal(err)
	}
	return s
}

// rows reads what a query chooses, by name and version.
func (m *mirror) rows(q catalogue.Query) map[string]catalogue.Entry {
	m.Helper()
	rows := map[string]catalogue.Entry{}
	for after, more := "", true; more; {
		page, err := m.catalogue.Page(m.Context(), q, after, 100)
		if err != nil {
			m.Fatal(err)
		}
		for _, e := range page.Entries {
			rows[e.Name+" "+e.Version] = e
		}
		after, more = page.Next, page.More
	}
	return rows
}

// listed are the rows that readers see by default.
func (m *mirror) listed() []string {
	m.Helper()
	return slices.Sorted(maps.Keys(m.rows(catalogue.Query{})))
}

func (m *mirror) entry(name, version string) catalogue.Entry {
	m.Helper()
	e, err := m.catalogue.Entry(m.Context(), name, version)
	if err != nil {
		m.Fatalf("%s %s: %v", name, version, err)
	}
	return e
}

// asked returns the queries of the requests since the last call.
func (m *mirror) asked() []string {
	asked := m.upstream.Requests()
	m.upstream.Forget()
	return asked
}

func TestNewAggregator(t *testing.T) {
	c, _ := newCatalogue(t)
	for _, tt := range []struct {
		name   string
		config registry.AggregatorConfig
		want   string
	}{
		{"nothing", registry.AggregatorConfig{}, "it needs a catalogue"},
		{"times", registry.AggregatorConfig{Catalogue: c, Interval: -1}, "a time below zero"},
		{"overlap", registry.AggregatorConfig{Catalogue: c, Overlap: -1}, "a time below zero"},
		{"jitter", registry.AggregatorConfig{Catalogue: c, Jitter: 1.5}, "from 0 to 1"},
		{"key", registry.AggregatorConfig{Catalogue: c, MetaKey: "no key"}, "com.example.registry"},
		{"theirs", registry.AggregatorConfig{Catalogue: c, MetaKey: registry.MetaOfficial}, "reserved"},
		{"good", registry.AggregatorConfig{Catalogue: c, MetaKey: "com.example.registry/catalogue"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := registry.NewAggregator(tt.config)
			if tt.want == "" && err != nil || tt.want != "" && err == nil {
				t.Fatalf("%v, want %q", err, tt.want)
			}
			if tt.name != "key" && tt.want != "" && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

var forms = map[string]registrytest.Form{"official": registrytest.Official, "flat": registrytest.Flat, "both": registrytest.Both}

// Everything is there afterwards, byte for byte, and nothing else: in whatever form it came.
func TestFullCrawl(t *testing.T) {
	for name, form := range forms {
		t.Run(name, func(t *testing.T) {
			m := newMirror(t)
			m.upstream.SetForm(form)
			m.upstream.Fill(25)
			for _, version := range []string{"1.10.0", "1.9.0", "2.0.0-rc.1", "nightly"} {
				m.upstream.Add("com.example/versions", version)
			}
			m.upstream.SetStatus("com.example/server-000003", "1.0.0", registry.StatusDeprecated, "use another one")
			m.upstream.SetStatus("com.example/server-000004", "1.0.0", registry.StatusDeleted, "malware")
			m.upstream.SetMeta("com.example/server-000005", "1.0.0", "org.example.ratings/stars", map[string]int{"stars": 4})
			report := m.sync(registry.Order{})
			if report.Mode != registry.ModeFull || report.Pages != 3 || report.Items != 29 || report.Added != 29 || report.Resumed || !report.Judged {
				t.Errorf("%+v", report)
			}
			all := m.rows(catalogue.Query{Deleted: true})
			if len(all) != 29 || len(m.listed()) != 28 {
				t.Errorf("%d rows, of which %d are listed", len(all), len(m.listed()))
			}
			for id, e := range all {
				name, version, _ := strings.Cut(id, " ")
				var there, published any
				_ = json.Unmarshal(e.Server, &there)
				_ = json.Unmarshal([]byte(registrytest.Record(name, version)), &published)
				if fmt.Sprint(there) != fmt.Sprint(published) || form != registrytest.Flat && string(e.Server) != registrytest.Record(name, version) {
					t.Errorf("%s: %s", id, e.Server)
				}
				if e.Origin != registry.OriginUpstream || e.Published.IsZero() || e.Updated.IsZero() || e.StatusChanged.IsZero() || len(e.Flags) > 0 {
					t.Errorf("%s: %+v", id, e)
				}
			}
			if e := m.entry("com.example/server-000003", "1.0.0"); e.Status != "deprecated" || form != registrytest.Flat && e.StatusMessage != "use another one" {
				t.Errorf("%+v", e)
			}
			if e := m.entry("com.example/server-000004", "1.0.0"); e.Status != "deleted" {
				t.Errorf("%+v", e)
			}
			if e := m.entry("com.example/server-000005", "1.0.0"); string(e.Meta) != `{"org.example.ratings/stars":{"stars":4}}` {
				t.Errorf("%s", e.Meta)
			}
			latest := m.rows(catalogue.Query{Latest: true})
			if _, ok := latest["com.example/versions 2.0.0-rc.1"]; !ok || len(latest) != 25 {
				t.Errorf("the latest are %v", slices.Sorted(maps.Keys(latest)))
			}
			s := m.status()
			if s.Servers != 25 || s.Rows != 28 || s.Deleted != 1 || s.LastFull == nil || s.Failure != nil || s.Shrink != nil || s.Running != nil || s.Writer != "" {
				t.Errorf("%+v", s)
			}
			if s.Upstream != m.upstream.URL() || !s.LastSync.Equal(m.clock.Now()) {
				t.Errorf("%+v", s)
			}
		})
	}
}

// After the first time only what was updated is asked for, by whatever process.
func TestIncrement(t *testing.T) {
	for name, form := range forms {
		t.Run(name, func(t *testing.T) {
			m := newMirror(t)
			m.upstream.SetForm(form)
			m.upstream.Fill(25)
			m.sync(registry.Order{})
			before := m.rows(catalogue.Query{Deleted: true})
			m.asked()
			m.restart(nil)
			m.later(time.Hour)
			at := m.upstream.Now()
			m.upstream.SetClock(func() time.Time { return at.Add(time.Hour) })
			m.upstream.Add("com.example/server-000007", "1.1.0")
			m.upstream.Add("com.example/another", "0.1.0")
			m.upstream.SetStatus("com.example/server-000003", "1.0.0", registry.StatusDeprecated, "")
			m.upstream.SetStatus("com.example/server-000004", "1.0.0", registry.StatusDeleted, "spam")
			report := m.sync(registry.Order{})
			if report.Mode != registry.ModeIncrement || report.Added != 2 || report.Deleted != 1 || report.Updated != 2 {
				t.Errorf("%+v", report)
			}
			for _, asked := range m.asked() {
				if !strings.Contains(asked, "updated_since=") {
					t.Errorf("%s was asked for", asked)
				}
			}
			if e := m.entry("com.example/server-000007", "1.0.0"); e.Latest {
				t.Error("the version before is the latest still")
			}
			if e := m.entry("com.example/server-000007", "1.1.0"); !e.Latest {
				t.Error("the new version is not the latest")
			}
			if e := m.entry("com.example/server-000003", "1.0.0"); e.Status != "deprecated" {
				t.Errorf("%+v", e)
			}
			if slices.Contains(m.listed(), "com.example/server-000004 1.0.0") {
				t.Error("what is deleted is still listed")
			}
			changed := []string{"com.example/another 0.1.0", "com.example/server-000003 1.0.0", "com.example/server-000004 1.0.0", "com.example/server-000007 1.0.0", "com.example/server-000007 1.1.0"}
			for id, e := range m.rows(catalogue.Query{Deleted: true}) {
				if was, now := before[id].Updated, e.Updated; slices.Contains(changed, id) != now.After(was) {
					t.Errorf("%s was updated at %s, before at %s", id, now, was)
				}
			}
		})
	}
}

// Updates are asked for from before the last one that is known, because clocks differ and a
// registry may write down an update late.
func TestOverlap(t *testing.T) {
	m := newMirror(t)
	m.upstream.Fill(3)
	newest := m.upstream.Now() // of what was updated last, at least
	m.sync(registry.Order{})
	m.asked()
	for _, overlap := range []time.Duration{0, time.Hour} { // with 0 the default
		m.restart(func(c *registry.AggregatorConfig) { c.Overlap = overlap })
		m.sync(registry.Order{})
		for _, asked := range m.asked() {
			u, err := url.Parse(asked)
			if err != nil {
				t.Fatal(err)
			}
			since, err := time.Parse(time.RFC3339Nano, u.Query().Get("updated_since"))
			want := cmp.Or(overlap, 5*time.Minute)
			if before := newest.Sub(since); err != nil || before < want || before > want+time.Second {
				t.Errorf("%s was asked for, %v before the last update (%s), want %v: %v", asked, before, newest, want, err)
			}
		}
	}
}

// What changes behind a crawl, on a page that it has passed, comes with the next increment.
func TestChangeBehindTheCrawl(t *testing.T) {
	m := newMirror(t)
	m.upstream.Fill(30)
	const passed = "com.example/server-000001"
	m.restart(func(c *registry.AggregatorConfig) {
		c.Progress = func(r registry.Report) {
			if r.Mode == registry.ModeFull && r.Pages == 1 {
				m.upstream.SetStatus(passed, "1.0.0", registry.StatusDeleted, "malware")
			}
		}
	})
	m.sync(registry.Order{})
	if e := m.entry(passed, "1.0.0"); e.Status == catalogue.StatusDeleted {
		t.Fatalf("the crawl saw it: %+v", e)
	}
	m.later(time.Hour)
	if report := m.sync(registry.Order{}); report.Mode != registry.ModeIncrement || report.Deleted != 1 || m.entry(passed, "1.0.0").Status != catalogue.StatusDeleted {
		t.Errorf("%+v", report)
	}
}

// What is restored is listed again, and of several versions the highest that is not deleted
// is the latest.
func TestLatestFollowsStatus(t *testing.T) {
	m := newMirror(t)
	for _, version := range []string{"1.0.0", "1.1.0", "2.0.0"} {
		m.upstream.Add("com.example/notes", version)
	}
	latest := func() string {
		m.Helper()
		e, err := m.catalogue.Latest(m.Context(), "com.example/notes")
		if err != nil {
			m.Fatal(err)
		}
		return e.Version + " " + e.Status
	}
	for _, step := range []struct {
		version string
		status  registry.Status
		want    string
	}{
		{"1.0.0", registry.StatusActive, "2.0.0 active"},
		{"2.0.0", registry.StatusDeleted, "1.1.0 active"},
		{"1.1.0", registry.StatusDeprecated, "1.1.0 deprecated"},
		{"1.1.0", registry.StatusDeleted, "1.0.0 active"},
		{"1.0.0", registry.StatusDeleted, "2.0.0 deleted"},
		{"1.1.0", registry.StatusActive, "1.1.0 active"},
		{"2.0.0", registry.StatusDeprecated, "2.0.0 deprecated"},
	} {
		m.upstream.SetStatus("com.example/notes", step.version, step.status, "")
		m.sync(registry.Order{})
		if got := latest(); got != step.want {
			t.Errorf("after %s is %s the latest is %s, want %s", step.version, step.status, got, step.want)
		}
		n := 0
		for _, e := range m.rows(catalogue.Query{Deleted: true}) {
			if e.Latest {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%d versions are the latest", n)
		}
	}
}

// What the upstream says about the latest version is not believed: it may say so of none.
func TestLatestIsOurs(t *testing.T) {
	official := `"_meta":{"io.modelcontextprotocol.registry/official":{"status":"active","isLatest":%t,"publishedAt":"2025-09-01T00:00:0%dZ"}}`
	item := func(version string, latest bool, second int) string {
		return fmt.Sprintf(`{"server":%s,`+official+`}`, registrytest.Record("com.example/notes", version), latest, second)
	}
	m := newMirror(t)
	base := body(t, `{"servers":[`+item("1.0.0", true, 2)+","+item("1.2.0", true, 1)+","+item("0.9.0", false, 3)+`]}`)
	m.restart(func(c *registry.AggregatorConfig) { c.Client = newClient(t, registry.ClientConfig{Base: base}) })
	m.sync(registry.Order{})
	if got := m.rows(catalogue.Query{Latest: true}); len(got) != 1 || !got["com.example/notes 1.2.0"].Latest {
		t.Errorf("%v", slices.Collect(maps.Keys(got)))
	}
}

// A record stays what it was; what is said about it does not.
func TestImmutable(t *testing.T) {
	m := newMirror(t)
	const name = "com.example/notes"
	first := registrytest.Record(name, "1.0.0")
	m.upstream.Publish(first)
	m.upstream.Add("com.example/other", "1.0.0")
	m.sync(registry.Order{})

	m.upstream.Rewrite(name, "1.0.0", strings.ReplaceAll(first, `,"`, ", \n\t\""))
	if report := m.sync(registry.Order{}); report.Changed != 0 || len(m.entry(name, "1.0.0").Flags) > 0 {
		t.Errorf("white space is a change: %+v", report)
	}
	other := strings.Replace(first, "What com", "Free money from com", 1)
	m.upstream.Rewrite(name, "1.0.0", other)
	m.upstream.SetStatus(name, "1.0.0", registry.StatusDeprecated, "moved")
	for range 2 {
		report := m.sync(registry.Order{Full: true})
		e := m.entry(name, "1.0.0")
		if report.Changed != 1 || string(e.Server) != first || !slices.Equal(e.Flags, []string{registry.FlagChanged}) {
			t.Errorf("%+v\n%s %v", report, e.Server, e.Flags)
		}
		if e.Status != "deprecated" || e.StatusMessage != "moved" {
			t.Errorf("the status is %s %s", e.Status, e.StatusMessage)
		}
		if s := m.status(); s.Changed != 1 {
			t.Errorf("%+v", s)
		}
	}
	if n := strings.Count(m.logs.String(), "differs_in=description"); n != 1 {
		t.Errorf("it is logged %d times:\n%s", n, m.logs)
	}
	flagged := m.entry(name, "1.0.0")
	m.upstream.Rewrite(name, "1.0.0", first)
	m.sync(registry.Order{})
	if e := m.entry(name, "1.0.0"); len(e.Flags) > 0 || m.status().Changed != 0 || !e.Updated.Equal(flagged.Updated) {
		t.Errorf("it is as it was, and flagged or updated: %+v, %+v", e, m.status())
	}
	m.upstream.RewriteQuietly(name, "1.0.0", other)
	if report := m.sync(registry.Order{AcceptChanged: true}); report.Changed != 0 || string(m.entry(name, "1.0.0").Server) != other {
		t.Errorf("%+v", report)
	}
}

// What is not listed any more is deleted, says so, and comes back with the upstream.
func TestVanished(t *testing.T) {
	m := newMirror(t)
	m.upstream.Fill(30)
	m.upstream.Add("com.example/server-000009", "1.1.0")
	m.sync(registry.Order{})
	m.upstream.Remove("com.example/server-000009", "1.1.0")
	m.upstream.Remove("com.example/server-000020", "1.0.0")
	m.later(8 * 24 * time.Hour)
	report := m.sync(registry.Order{})
	if report.Mode != registry.ModeFull || report.Missing != 2 || report.Vanished != 2 || report.Deleted != 2 || len(m.listed()) != 29 {
		t.Errorf("%+v", report)
	}
	for id, latest := range map[string]bool{"com.example/server-000009 1.1.0": false, "com.example/server-000020 1.0.0": true} {
		name, version, _ := strings.Cut(id, " ")
		e := m.entry(name, version)
		if e.Status != "deleted" || !strings.Contains(e.StatusMessage, "does not list it") || !slices.Equal(e.Flags, []string{registry.FlagVanished}) ||
			!e.StatusChanged.Equal(e.Updated) || e.Latest != latest {
			t.Errorf("%+v", e)
		}
	}
	if !m.entry("com.example/server-000009", "1.0.0").Latest || m.status().Vanished != 2 {
		t.Errorf("%+v", m.status())
	}
	m.upstream.Add("com.example/server-000020", "1.0.0")
	m.upstream.Add("com.example/server-000009", "1.1.0")
	m.sync(registry.Order{})
	if e := m.entry("com.example/server-000020", "1.0.0"); e.Status != "active" || e.StatusMessage != "" || len(e.Flags) > 0 {
		t.Errorf("%+v", e)
	}
	if !m.entry("com.example/server-000009", "1.1.0").Latest || m.status().Vanished != 0 || len(m.listed()) != 31 {
		t.Errorf("%+v", m.status())
	}
}

// An upstream that has lost much is not mirrored until somebody says so.
func TestShrink(t *testing.T) {
	for _, tt := range []struct {
		name      string
		held, now int
		shrunk    bool
	}{
		{"ten of fifty", 50, 40, false},
		{"eleven of fifty", 50, 39, true},
		{"eleven of a hundred and ten", 110, 99, false},
		{"two of three", 3, 1, false},
		{"all of three", 3, 0, true},
		{"the only one", 1, 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := newMirror(t)
			m.upstream.Fill(tt.held)
			m.sync(registry.Order{})
			for i := tt.now; i < tt.held; i++ {
				m.upstream.Remove(fmt.Sprintf("com.example/server-%06d", i+1), "1.0.0")
			}
			m.upstream.Add("org.example/new-1", "1.0.0") // what is new does not make up for it
			m.upstream.Add("org.example/new-2", "1.0.0")
			report := m.sync(registry.Order{Full: true})
			if s := m.status(); tt.shrunk != (s.Shrink != nil) || report.Missing != tt.held-tt.now {
				t.Fatalf("%+v\n%+v", s, report)
			}
			want := tt.held + 2
			if !tt.shrunk {
				want = tt.now + 2
			}
			if got := len(m.listed()); got != want {
				t.Errorf("%d are listed, want %d", got, want)
			}
			if !tt.shrunk {
				return
			}
			if !strings.Contains(m.logs.String(), "--accept-shrink") {
				t.Errorf("nobody is told:\n%s", m.logs)
			}
			since := m.status().Shrink.Since
			m.later(25 * time.Hour) // it is looked again before a week is over, and still waits
			if report := m.sync(registry.Order{}); report.Mode != registry.ModeFull || len(m.listed()) != want || !m.status().Shrink.Since.Equal(since) {
				t.Errorf("%+v", report)
			}
			m.sync(registry.Order{AcceptShrink: true})
			if s := m.status(); len(m.listed()) != tt.now+2 || s.Shrink != nil {
				t.Errorf("%d are listed: %+v", len(m.listed()), s)
			}
		})
	}
}

// A full crawl counts flags anew, so that no crash leaves them miscounted for good.
func TestFlagsAreCountedAnew(t *testing.T) {
	m := newMirror(t)
	m.upstream.Fill(12)
	m.sync(registry.Order{})
	row := m.entry("com.example/server-000003", "1.0.0")
	row.Flags = []string{registry.FlagChanged} // on the row, and not in the count
	writer, err := m.catalogue.OpenWriter(t.Context(), "a process that was killed")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(writer.Commit(t.Context(), []catalogue.Entry{row}, nil), writer.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
	m.upstream.Remove("com.example/server-000004", "1.0.0")
	m.sync(registry.Order{Full: true})
	if s := m.status(); s.Changed != 0 || s.Vanished != 1 {
		t.Errorf("%d changed, %d vanished", s.Changed, s.Vanished)
	}
}

// An upstream that was reset is found out about by the next increment, or if it tells no
// times by the next full crawl. When it has everything again, all is well without anybody's
// help.
func TestReset(t *testing.T) {
	for name, form := range forms {
		t.Run(name, func(t *testing.T) {
			m := newMirror(t)
			m.upstream.SetForm(form)
			m.upstream.Fill(40)
			m.sync(registry.Order{})
			m.upstream.Reset()
			m.upstream.Add("org.example/first", "1.0.0")
			m.later(time.Hour)
			if form == registrytest.Flat { // it tells no times, so only the next full crawl finds out
				if report := m.sync(registry.Order{}); report.Mode != registry.ModeIncrement || len(m.listed()) != 41 {
					t.Fatalf("%+v", report)
				}
				m.later(7 * 24 * time.Hour)
			}
			report := m.sync(registry.Order{})
			if report.Mode != registry.ModeFull || report.Missing != 40 || m.status().Shrink == nil || len(m.listed()) != 41 {
				t.Fatalf("%+v %+v", report, m.status())
			}
			m.later(time.Hour)
			if report := m.sync(registry.Order{}); report.Mode != registry.ModeIncrement {
				t.Errorf("%+v", report)
			}
			for i := range 40 {
				m.upstream.Add(fmt.Sprintf("com.example/server-%06d", i+1), "1.0.0")
			}
			m.later(25 * time.Hour)
			if report := m.sync(registry.Order{}); report.Mode != registry.ModeFull || report.Missing != 0 || m.status().Shrink != nil || len(m.listed()) != 41 {
				t.Errorf("%+v %+v", report, m.status())
			}
		})
	}
}

// One that loses its newest row again and again is not read in full each time.
func TestResetsAreBounded(t *testing.T) {
	m := newMirror(t)
	m.upstream.Fill(30)
	m.sync(registry.Order{})
	full := 0
	for i := range 20 {
		m.upstream.Add(fmt.Sprintf("org.example/brief-%d", i), "1.0.0")
		m.later(time.Hour)
		m.sync(registry.Order{})
		m.upstream.Remove(fmt.Sprintf("org.example/brief-%d", i), "1.0.0")
		m.later(time.Hour)
		if m.sync(registry.Order{}).Mode == registry.ModeFull {
			full++
		}
	}
	if full < 1 || full > 2 {
		t.Errorf("%d full crawls in 40 hours", full)
	}
}

// Where answers have names, nothing is read twice.
func TestNotModifiedCatalogue(t *testing.T) {
	for name, form := range forms {
		t.Run(name, func(t *testing.T) {
			m := newMirror(t)
			m.upstream.SetForm(form)
			m.upstream.SetETags(true)
			m.upstream.Fill(5)
			at := m.upstream.Now()
			m.upstream.SetClock(func() time.Time { return at })
			m.sync(registry.Order{})
			m.sync(registry.Order{})
			committed := m.status().Committed
			report := m.sync(registry.Order{})
			if !report.NotModified || report.Pages != 0 || m.status().Committed != committed || m.status().LastIncrement == nil {
				t.Errorf("%+v", report)
			}
			m.sync(registry.Order{Full: true})
			if report := m.sync(registry.Order{Full: true}); !report.NotModified || !report.Judged || len(m.listed()) != 5 {
				t.Errorf("%+v", report)
			}
			m.upstream.SetStatus("com.example/server-000002", "1.0.0", registry.StatusDeleted, "")
			if report := m.sync(registry.Order{Full: true}); report.NotModified || report.Deleted != 1 {
				t.Errorf("%+v", report)
			}
		})
	}
}

// Our own key of _meta is ours, wherever somebody else writes it.
func TestMetaKeyIsOurs(t *testing.T) {
	const key = "com.example.registry/catalogue"
	m := newMirror(t)
	with := func(version, meta string) string {
		return strings.TrimSuffix(registrytest.Record("com.example/notes", version), "}") + `,"_meta":{` + meta + `}}`
	}
	m.upstream.Publish(with("1.0.0", `"`+key+`":{"stars":5}`))
	m.upstream.Publish(with("2.0.0", `"org.example/kept": {"a":  1},"COM.example.registry/Catalogue":{"stars":5}`))
	m.upstream.SetMeta("com.example/notes", "1.0.0", key, map[string]int{"stars": 5})
	m.upstream.SetMeta("com.example/notes", "1.0.0", "org.example/kept", 1)
	if report := m.sync(registry.Order{}); report.Stripped != 2 || report.Invalid != 0 {
		t.Errorf("%+v", report)
	}
	for _, e := range m.rows(catalogue.Query{}) {
		if strings.Contains(strings.ToLower(string(e.Server)+string(e.Meta)), key) {
			t.Errorf("%s %s", e.Server, e.Meta)
		}
	}
	if e := m.entry("com.example/notes", "2.0.0"); string(e.Server) != with("2.0.0", `"org.example/kept": {"a":  1}`) {
		t.Errorf("%s", e.Server)
	}
	if e := m.entry("com.example/notes", "1.0.0"); string(e.Server) != registrytest.Record("com.example/notes", "1.0.0") || string(e.Meta) != `{"org.example/kept":1}` {
		t.Errorf("%s %s", e.Server, e.Meta)
	}
	if report := m.sync(registry.Order{Full: true}); report.Changed != 0 || report.Updated != 0 {
		t.Errorf("%+v", report)
	}
}

// Another upstream is another one, whatever the one before had.
func TestAnotherUpstream(t *testing.T) {
	m := newMirror(t)
	m.upstream.Fill(20)
	m.sync(registry.Order{})
	m.upstream = registrytest.New(t)
	m.upstream.Fill(3)
	m.upstream.Add("org.example/other", "1.0.0")
	m.restart(nil)
	if report := m.sync(registry.Order{}); report.Mode != registry.ModeFull || m.status().Shrink == nil || len(m.listed()) != 21 {
		t.Errorf("%+v %+v", report, m.status())
	}
}

// The times of updates rise with what is committed, whatever the clock and the upstream say, so
// that whoever asks for updates misses none.
func TestUpdatesRise(t *testing.T) {
	m := newMirror(t)
	m.upstream.Fill(35)
	m.sync(registry.Order{})
	newest := func() (at time.Time) {
		for _, e := range m.rows(catalogue.Query{Deleted: true}) {
			if e.Updated.After(at) {
				at = e.Updated
			}
		}
		return at
	}
	for i := range 5 {
		before := newest()
		m.later(-time.Hour)
		m.upstream.Add("com.example/added", fmt.Sprintf("1.0.%d", i))
		m.sync(registry.Order{})
		changed := m.rows(catalogue.Query{Since: before, Deleted: true})
		if want := min(i+1, 2); len(changed) != want {
			t.Errorf("%d rows were updated since, want %d", len(changed), want)
		}
	}
}

// A mirror of a mirror has what that one has, although each of them asks for updates when it
// likes, and they disagree about the time.
func TestMirrorOfMirror(t *testing.T) {
	first := newMirror(t)
	first.upstream.Fill(35)
	first.sync(registry.Order{})
	handler, err := registry.NewHandler(registry.HandlerConfig{Catalogue: first.catalogue, Now: first.clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	second := newMirror(t)
	second.later(-20 * time.Hour)
	second.restart(func(c *registry.AggregatorConfig) {
		c.Client = newClient(t, registry.ClientConfig{Base: server.URL, PageSize: 10})
	})
	second.sync(registry.Order{})
	for i := range 12 {
		first.upstream.Add("com.example/added", fmt.Sprintf("1.%d.0", i))
		first.upstream.SetStatus(fmt.Sprintf("com.example/server-%06d", i+1), "1.0.0", registry.StatusDeleted, "spam")
		if i%3 == 0 { // what was updated there before comes here after
			second.sync(registry.Order{})
		}
		first.later(17 * time.Minute)
		second.later(23 * time.Minute)
		first.sync(registry.Order{})
		if i%4 == 1 {
			second.sync(registry.Order{})
		}
	}
	if report := second.sync(registry.Order{}); report.Mode != registry.ModeIncrement {
		t.Errorf("%+v", report)
	}
	theirs, ours := first.rows(catalogue.Query{Deleted: true}), second.rows(catalogue.Query{Deleted: true})
	for id, a := range theirs {
		b := ours[id]
		if string(a.Server) != string(b.Server) || a.Status != b.Status || a.StatusMessage != b.StatusMessage || a.Latest != b.Latest || !a.Published.Equal(b.Published) {
			t.Errorf("%s: %+v, and here %+v", id, a, b)
		}
	}
	if len(ours) != len(theirs) || len(ours) != 47 {
		t.Errorf("%d rows, and here %d", len(theirs), len(ours))
	}
}
