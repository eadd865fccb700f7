package mirror_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"gatehouse.example/registry"
	"gatehouse.example/registry/mirror"
	"gatehouse.example/registry/registrytest"
	"gatehouse.example/registry/serve"
	"gatehouse.example/registry/upstream"
	"gatehouse.example/storage/catalogue"
)

func TestNewAggregator(t *testing.T) {
	c, _ := newCatalogue(t)
	for _, tt := range []struct {
		name   string
		config mirror.Config
		want   string
	}{
		{"nothing", mirror.Config{}, "it needs a catalogue"},
		{"times", mirror.Config{Catalogue: c, Interval: -1}, "a time is below zero"},
		{"overlap", mirror.Config{Catalogue: c, Overlap: -1}, "a time is below zero"},
		{"look", mirror.Config{Catalogue: c, Look: -1}, "a time is below zero"},
		{"patience", mirror.Config{Catalogue: c, Patience: -1}, "a time is below zero"},
		{"jitter", mirror.Config{Catalogue: c, Jitter: 1.5}, "from 0 to 1"},
		{"jitter below zero", mirror.Config{Catalogue: c, Jitter: -0.1}, "from 0 to 1"},
		{"the most jitter", mirror.Config{Catalogue: c, Jitter: 1}, ""},
		{"key", mirror.Config{Catalogue: c, MetaKey: "no key"}, "com.example.registry"},
		{"theirs", mirror.Config{Catalogue: c, MetaKey: registry.MetaOfficial}, "reserved"},
		{"good", mirror.Config{Catalogue: c, MetaKey: "com.example.registry/catalogue"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := mirror.New(tt.config)
			if tt.want == "" && err != nil || tt.want != "" && err == nil {
				t.Fatalf("%v, want %q", err, tt.want)
			}
			if tt.name != "key" && tt.want != "" && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

// After a full crawl the catalogue has exactly the records of the upstream, byte for byte, in
// every form of the list.
func TestFullCrawl(t *testing.T) {
	for name, form := range forms {
		t.Run(name, func(t *testing.T) {
			m := newFixture(t)
			m.upstream.SetForm(form)
			m.upstream.Fill(25)
			for _, version := range []string{"1.10.0", "1.9.0", "2.0.0-rc.1", "nightly"} {
				m.upstream.Add("com.example/versions", version)
			}
			m.upstream.SetStatus("com.example/server-000003", "1.0.0", registry.StatusDeprecated, "use another one")
			m.upstream.SetStatus("com.example/server-000004", "1.0.0", registry.StatusDeleted, "malware")
			m.upstream.SetMeta("com.example/server-000005", "1.0.0", "org.example.ratings/stars", map[string]int{"stars": 4})
			report := m.sync(mirror.SyncOptions{})
			if report.Mode != mirror.ModeFull || report.Pages != 3 || report.Items != 29 || report.Added != 29 || report.Resumed || !report.Judged {
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
				if e.Origin != mirror.OriginUpstream || e.Published.IsZero() || e.Updated.IsZero() || e.StatusChanged.IsZero() || len(e.Flags) > 0 {
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

// After the full crawl, every process requests the updates alone.
func TestIncrement(t *testing.T) {
	for name, form := range forms {
		t.Run(name, func(t *testing.T) {
			m := newFixture(t)
			m.upstream.SetForm(form)
			m.upstream.Fill(25)
			m.sync(mirror.SyncOptions{})
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
			report := m.sync(mirror.SyncOptions{})
			if report.Mode != mirror.ModeIncrement || report.Added != 2 || report.Deleted != 1 || report.Updated != 2 {
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

// The requested period of updates begins before the last known update, because clocks differ
// and a registry may record an update late.
func TestOverlap(t *testing.T) {
	m := newFixture(t)
	m.upstream.Fill(3)
	newest := m.upstream.Now() // not before the last update
	m.sync(mirror.SyncOptions{})
	m.asked()
	for _, overlap := range []time.Duration{0, time.Hour} { // 0 is the default
		m.restart(func(c *mirror.Config) { c.Overlap = overlap })
		m.sync(mirror.SyncOptions{})
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

// A clock of the upstream at the beginning of time keeps no later increment from being read.
func TestOverlapBeforeTheFirstYear(t *testing.T) {
	for _, at := range []time.Time{time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(1, 1, 1, 0, 0, 1, 0, time.UTC)} {
		m := newFixture(t)
		m.upstream.SetClock(func() time.Time { return at })
		m.upstream.Fill(3)
		m.sync(mirror.SyncOptions{})
		m.upstream.SetClock(m.clock.Now)
		m.upstream.Add("com.example/server-000004", "1.0.0")
		if report := m.sync(mirror.SyncOptions{}); !slices.Contains(m.listed(), "com.example/server-000004 1.0.0") {
			t.Errorf("%s: %+v", at, report)
		}
		for _, asked := range m.asked() {
			if u, err := url.Parse(asked); err != nil || strings.HasPrefix(u.Query().Get("updated_since"), "0") {
				t.Errorf("%s: %s: registries refuse such a year", at, asked)
			}
		}
	}
}

// A change on a page that the crawl has passed arrives with the next increment.
func TestChangeBehindTheCrawl(t *testing.T) {
	m := newFixture(t)
	m.upstream.Fill(30)
	const passed = "com.example/server-000001"
	m.restart(func(c *mirror.Config) {
		c.Progress = func(r mirror.Report) {
			if r.Mode == mirror.ModeFull && r.Pages == 1 {
				m.upstream.SetStatus(passed, "1.0.0", registry.StatusDeleted, "malware")
			}
		}
	})
	m.sync(mirror.SyncOptions{})
	if e := m.entry(passed, "1.0.0"); e.Status == catalogue.StatusDeleted {
		t.Fatalf("the crawl saw it: %+v", e)
	}
	m.later(time.Hour)
	if report := m.sync(mirror.SyncOptions{}); report.Mode != mirror.ModeIncrement || report.Deleted != 1 || m.entry(passed, "1.0.0").Status != catalogue.StatusDeleted {
		t.Errorf("%+v", report)
	}
}

// The next increment detects that the upstream was reset; without update times, the next full
// crawl does. When the upstream has all records again, the mirror recovers by itself.
func TestReset(t *testing.T) {
	for name, form := range forms {
		t.Run(name, func(t *testing.T) {
			m := newFixture(t)
			m.upstream.SetForm(form)
			m.upstream.Fill(40)
			m.sync(mirror.SyncOptions{})
			m.upstream.Reset()
			m.upstream.Add("org.example/first", "1.0.0")
			m.later(time.Hour)
			if form == registrytest.Flat { // it has no update times, so only the next full crawl detects the reset
				if report := m.sync(mirror.SyncOptions{}); report.Mode != mirror.ModeIncrement || len(m.listed()) != 41 {
					t.Fatalf("%+v", report)
				}
				m.later(7 * 24 * time.Hour)
			}
			report := m.sync(mirror.SyncOptions{})
			if report.Mode != mirror.ModeFull || report.Missing != 40 || m.status().Shrink == nil || len(m.listed()) != 41 {
				t.Fatalf("%+v %+v", report, m.status())
			}
			m.later(time.Hour)
			if report := m.sync(mirror.SyncOptions{}); report.Mode != mirror.ModeIncrement {
				t.Errorf("%+v", report)
			}
			for i := range 40 {
				m.upstream.Add(fmt.Sprintf("com.example/server-%06d", i+1), "1.0.0")
			}
			m.later(25 * time.Hour)
			if report := m.sync(mirror.SyncOptions{}); report.Mode != mirror.ModeFull || report.Missing != 0 || m.status().Shrink != nil || len(m.listed()) != 41 {
				t.Errorf("%+v %+v", report, m.status())
			}
		})
	}
}

// A reset is detected too if the upstream was down before, at the first page of an increment or behind it.
func TestResetWhileDown(t *testing.T) {
	for pages := range 2 {
		m := newFixture(t)
		m.upstream.Fill(40)
		m.sync(mirror.SyncOptions{})
		m.later(time.Hour)
		for i := range 15 {
			m.upstream.Add(fmt.Sprintf("com.example/added-%02d", i), "1.0.0")
		}
		m.upstream.Break(registrytest.Faults{After: pages, Down: true})
		if m.fails(); m.status().Running == nil || m.status().Running.Pages != pages {
			t.Fatalf("%+v", m.status())
		}
		m.upstream.Mend()
		m.upstream.Reset()
		for i := range 15 {
			m.upstream.Add(fmt.Sprintf("org.example/first-%02d", i), "1.0.0")
		}
		m.later(time.Hour)
		if report := m.sync(mirror.SyncOptions{}); report.Mode != mirror.ModeFull || report.Missing != 40+10*pages || m.status().Shrink == nil {
			t.Errorf("after %d pages: %+v %+v", pages, report, m.status())
		}
	}
}

// An upstream that repeatedly loses its newest row does not cause a full crawl each time.
func TestResetsAreBounded(t *testing.T) {
	m := newFixture(t)
	m.upstream.Fill(30)
	m.sync(mirror.SyncOptions{})
	full := 0
	for i := range 20 {
		m.upstream.Add(fmt.Sprintf("org.example/brief-%d", i), "1.0.0")
		m.later(time.Hour)
		m.sync(mirror.SyncOptions{})
		m.upstream.Remove(fmt.Sprintf("org.example/brief-%d", i), "1.0.0")
		m.later(time.Hour)
		if m.sync(mirror.SyncOptions{}).Mode == mirror.ModeFull {
			full++
		}
	}
	if full < 1 || full > 2 {
		t.Errorf("%d full crawls in 40 hours", full)
	}
}

// With ETags, an unchanged page is not transferred twice.
func TestNotModifiedCatalogue(t *testing.T) {
	for name, form := range forms {
		t.Run(name, func(t *testing.T) {
			m := newFixture(t)
			m.upstream.SetForm(form)
			m.upstream.SetETags(true)
			m.upstream.Fill(5)
			at := m.upstream.Now()
			m.upstream.SetClock(func() time.Time { return at })
			m.sync(mirror.SyncOptions{})
			m.sync(mirror.SyncOptions{})
			committed := m.status().Committed
			report := m.sync(mirror.SyncOptions{})
			if !report.NotModified || report.Pages != 0 || m.status().Committed != committed || m.status().LastIncrement == nil {
				t.Errorf("%+v", report)
			}
			m.sync(mirror.SyncOptions{Full: true})
			if report := m.sync(mirror.SyncOptions{Full: true}); !report.NotModified || !report.Judged || len(m.listed()) != 5 {
				t.Errorf("%+v", report)
			}
			m.upstream.SetStatus("com.example/server-000002", "1.0.0", registry.StatusDeleted, "")
			if report := m.sync(mirror.SyncOptions{Full: true}); report.NotModified || report.Deleted != 1 {
				t.Errorf("%+v", report)
			}
		})
	}
}

// After a change of the upstream, the mirror reads the new one in full.
func TestAnotherUpstream(t *testing.T) {
	m := newFixture(t)
	m.upstream.Fill(20)
	m.sync(mirror.SyncOptions{})
	m.upstream = registrytest.New(t)
	m.upstream.Fill(3)
	m.upstream.Add("org.example/other", "1.0.0")
	m.restart(nil)
	if report := m.sync(mirror.SyncOptions{}); report.Mode != mirror.ModeFull || m.status().Shrink == nil || len(m.listed()) != 21 {
		t.Errorf("%+v %+v", report, m.status())
	}
}

// A mirror of a mirror has the same rows, although the two request updates at different times
// and their clocks differ.
func TestMirrorOfMirror(t *testing.T) {
	first := newFixture(t)
	first.upstream.Fill(35)
	first.sync(mirror.SyncOptions{})
	handler, err := serve.New(serve.Config{Catalogue: first.catalogue, Now: first.clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	second := newFixture(t)
	second.later(-20 * time.Hour)
	second.restart(func(c *mirror.Config) {
		c.Client = newClient(t, upstream.Config{Base: server.URL, PageSize: 10})
	})
	second.sync(mirror.SyncOptions{})
	for i := range 12 {
		first.upstream.Add("com.example/added", fmt.Sprintf("1.%d.0", i))
		first.upstream.SetStatus(fmt.Sprintf("com.example/server-%06d", i+1), "1.0.0", registry.StatusDeleted, "spam")
		if i%3 == 0 { // updated in the upstream earlier, committed in the mirror later
			second.sync(mirror.SyncOptions{})
		}
		first.later(17 * time.Minute)
		second.later(23 * time.Minute)
		first.sync(mirror.SyncOptions{})
		if i%4 == 1 {
			second.sync(mirror.SyncOptions{})
		}
	}
	if report := second.sync(mirror.SyncOptions{}); report.Mode != mirror.ModeIncrement {
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
