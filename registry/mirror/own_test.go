package mirror_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"gatehouse.example/registry"
	"gatehouse.example/registry/mirror"
	"gatehouse.example/registry/registrytest"
	"gatehouse.example/registry/upstream"
	"gatehouse.example/storage"
	"gatehouse.example/storage/catalogue"
)

// The upstream's isLatest is ignored: it may be true for no version.
func TestLatestIsOurs(t *testing.T) {
	official := `"_meta":{"io.modelcontextprotocol.registry/official":{"status":"active","isLatest":%t,"publishedAt":"2025-09-01T00:00:0%dZ"}}`
	item := func(version string, latest bool, second int) string {
		return fmt.Sprintf(`{"server":%s,`+official+`}`, registrytest.Record("com.example/notes", version), latest, second)
	}
	m := newFixture(t)
	base := body(t, `{"servers":[`+item("1.0.0", true, 2)+","+item("1.2.0", true, 1)+","+item("0.9.0", false, 3)+`]}`)
	m.restart(func(c *mirror.Config) { c.Client = newClient(t, upstream.Config{Base: base}) })
	m.sync(mirror.SyncOptions{})
	if got := m.rows(catalogue.Query{Latest: true}); len(got) != 1 || !got["com.example/notes 1.2.0"].Latest {
		t.Errorf("%v", slices.Collect(maps.Keys(got)))
	}
}

// Own servers are published, changed and removed at once, with and without an upstream.
func TestOwnServers(t *testing.T) {
	m := newFixture(t)
	notes := registry.OwnServer{Name: "com.example/notes", Title: "Notes", URL: "https://notes.example.com/mcp"}
	files := registry.OwnServer{Name: "com.example/files", URL: "https://files.example.com/mcp"}
	var own []registry.Item
	m.restart(func(c *mirror.Config) { c.Client, c.Own = nil, func() []registry.Item { return own } })
	own = ownItems(t, notes, files)
	if report := m.sync(mirror.SyncOptions{}); report.Mode != mirror.ModeOwn || report.Added != 2 || m.status().Own != 2 {
		t.Errorf("%+v", report)
	}
	first := m.entry("com.example/notes", "1.0.0")
	if first.Origin != mirror.OriginOwn || !first.Latest || first.Status != "active" || first.Published.IsZero() || string(first.Server) != string(own[0].Record.Raw()) {
		t.Errorf("%+v", first)
	}
	committed := m.status().Committed
	m.restart(func(c *mirror.Config) { c.Client, c.Own = nil, func() []registry.Item { return own } })
	if m.sync(mirror.SyncOptions{}); m.status().Committed != committed {
		t.Error("what is the same is written again")
	}

	newer := notes
	newer.Title, newer.Version = "All notes", "1.1.0"
	notes.Status = registry.StatusDeprecated
	own = ownItems(t, notes, newer)
	m.later(time.Hour)
	if report := m.sync(mirror.SyncOptions{}); report.Added != 1 || report.Updated != 1 || report.Deleted != 1 {
		t.Errorf("%+v", report)
	}
	if e := m.entry("com.example/notes", "1.0.0"); e.Latest || e.Status != "deprecated" || !e.Published.Equal(first.Published) || !e.Updated.After(first.Updated) {
		t.Errorf("%+v", e)
	}
	if e := m.entry("com.example/files", "1.0.0"); e.Status != "deleted" || !strings.Contains(e.StatusMessage, "any more") {
		t.Errorf("%+v", e)
	}
	own = ownItems(t, files, newer)
	m.sync(mirror.SyncOptions{})
	if !slices.Equal(m.listed(), []string{"com.example/files 1.0.0", "com.example/notes 1.1.0"}) || m.entry("com.example/files", "1.0.0").StatusMessage != "" {
		t.Errorf("%v", m.listed())
	}

	m.restart(func(c *mirror.Config) { c.Client = nil }) // without Config.Own, own servers stay
	m.sync(mirror.SyncOptions{})
	if len(m.listed()) != 2 {
		t.Errorf("%v", m.listed())
	}
	own = nil
	m.restart(func(c *mirror.Config) { c.Client, c.Own = nil, func() []registry.Item { return own } })
	m.sync(mirror.SyncOptions{})
	if s := m.status(); len(m.listed()) != 0 || s.Own != 0 {
		t.Errorf("%v %+v", m.listed(), s)
	}
}

// An own server hides the upstream's server of the same name, whichever was first.
func TestOwnServersWin(t *testing.T) {
	m := newFixture(t)
	const name = "com.example/server-000003"
	m.upstream.Fill(12)
	m.upstream.Add(name, "2.0.0")
	m.sync(mirror.SyncOptions{})

	own := ownItems(t, registry.OwnServer{Name: name, URL: "https://notes.example.com/mcp"})
	with := func(c *mirror.Config) { c.Own = func() []registry.Item { return own } }
	m.restart(with)
	m.later(time.Hour)
	m.sync(mirror.SyncOptions{})
	ours := m.entry(name, "1.0.0")
	if ours.Origin != mirror.OriginOwn || !ours.Latest || string(ours.Server) != string(own[0].Record.Raw()) {
		t.Errorf("%+v", ours)
	}
	if theirs := m.entry(name, "2.0.0"); theirs.Status != "deleted" || !slices.Equal(theirs.Flags, []string{mirror.FlagShadowed}) || theirs.Latest {
		t.Errorf("%+v", theirs)
	}
	m.upstream.SetStatus(name, "1.0.0", registry.StatusDeleted, "malware")
	m.upstream.Add(name, "3.0.0")
	m.later(time.Hour)
	report := m.sync(mirror.SyncOptions{})
	ours = m.entry(name, "1.0.0")
	if report.Conflicts < 2 || ours.Status != "active" || !ours.Latest || !slices.Equal(ours.Flags, []string{mirror.FlagConflict}) || m.status().Conflicts != 1 {
		t.Errorf("%+v %+v", report, ours)
	}
	if _, err := m.catalogue.Entry(t.Context(), name, "3.0.0"); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("the server of the upstream with the name of an own server is visible: %v", err)
	}
	if n := strings.Count(m.logs.String(), "the own server stays"); n != 1 {
		t.Errorf("it is logged %d times", n)
	}
	m.later(8 * 24 * time.Hour)
	if report := m.sync(mirror.SyncOptions{}); report.Mode != mirror.ModeFull || report.Missing != 0 || !flaggedConflict(m, name) {
		t.Errorf("%+v", report)
	}

	// When the upstream does not list the name any more, the conflict ends.
	m.upstream.Remove(name, "1.0.0")
	m.upstream.Remove(name, "2.0.0")
	m.upstream.Remove(name, "3.0.0")
	m.later(8 * 24 * time.Hour)
	if m.sync(mirror.SyncOptions{}); flaggedConflict(m, name) || m.status().Conflicts != 0 {
		t.Error("there is still a conflict")
	}
	m.upstream.Add(name, "1.0.0")
	m.upstream.Add(name, "2.0.0")
	m.later(time.Hour)
	m.sync(mirror.SyncOptions{})

	// When the own server is removed, the upstream's server is visible at once, not after a week.
	own = nil
	m.later(time.Hour)
	if report := m.sync(mirror.SyncOptions{}); report.Mode != mirror.ModeFull {
		t.Errorf("%+v", report)
	}
	theirs := m.entry(name, "1.0.0")
	if theirs.Origin != mirror.OriginUpstream || theirs.Status != "active" || len(theirs.Flags) > 0 || !m.entry(name, "2.0.0").Latest || m.status().Shadowed != 0 {
		t.Errorf("%+v", theirs)
	}
}

// Own servers win in whatever order they are given. When one is removed, it is no conflict any more, it
// is deleted once, and the upstream's server is read again.
func TestOwnServersWinInAnyOrder(t *testing.T) {
	m := newFixture(t)
	own := ownItems(t, registry.OwnServer{Name: "com.example/z", URL: "https://z.example.com/mcp"}, registry.OwnServer{Name: "com.example/m", URL: "https://m.example.com/mcp"},
		registry.OwnServer{Name: "com.example/a", URL: "https://a.example.com/mcp"}, registry.OwnServer{Name: "com.example/b", URL: "https://b.example.com/mcp"})
	m.restart(func(c *mirror.Config) { c.Own = func() []registry.Item { return own } })
	for _, item := range own[:3] {
		m.upstream.Add(item.Record.Name(), "1.0.0")
	}
	m.sync(mirror.SyncOptions{})
	for _, item := range own {
		if e := m.entry(item.Record.Name(), "1.0.0"); e.Origin != mirror.OriginOwn || string(e.Server) != string(item.Record.Raw()) {
			t.Errorf("%+v", e)
		}
	}
	if n := m.status().Conflicts; n != 3 {
		t.Errorf("%d conflicts", n)
	}
	m.upstream.Break(registrytest.Faults{Status: 403}) // so that the rows stay as they are now
	own = own[1:3]
	m.fails()
	gone := m.entry("com.example/z", "1.0.0")
	if n := m.status().Conflicts; n != 2 || gone.Status != "deleted" || len(gone.Flags) > 0 {
		t.Errorf("%d conflicts, %+v", n, gone)
	}
	b := m.entry("com.example/b", "1.0.0")
	own = own[:1]
	m.later(time.Hour)
	m.fails()
	if e := m.entry("com.example/b", "1.0.0"); !e.Updated.Equal(b.Updated) || !e.StatusChanged.Equal(b.StatusChanged) {
		t.Errorf("it is deleted again: %+v", e)
	}
	m.upstream.Mend()
	m.later(time.Minute)
	if report := m.sync(mirror.SyncOptions{}); report.Mode != mirror.ModeFull {
		t.Errorf("%+v", report)
	}
	for name, origin := range map[string]string{"z": mirror.OriginUpstream, "a": mirror.OriginUpstream, "m": mirror.OriginOwn} {
		if e := m.entry("com.example/"+name, "1.0.0"); e.Origin != origin || e.Status != "active" {
			t.Errorf("%+v", e)
		}
	}
}

// What the upstream has deleted keeps its reason below an own server.
func TestOwnAboveDeleted(t *testing.T) {
	m := newFixture(t)
	const name = "com.example/server-000001"
	m.upstream.Fill(3)
	m.upstream.Add(name, "2.0.0")
	m.upstream.SetStatus(name, "2.0.0", registry.StatusDeleted, "malware")
	m.sync(mirror.SyncOptions{})
	own := ownItems(t, registry.OwnServer{Name: name, URL: "https://notes.example.com/mcp"})
	m.restart(func(c *mirror.Config) { c.Own = func() []registry.Item { return own } })
	m.sync(mirror.SyncOptions{})
	if e := m.entry(name, "2.0.0"); e.StatusMessage != "malware" || len(e.Flags) > 0 {
		t.Errorf("%+v", e)
	}
}

// TestOwnRecordsDoNotChange: a changed record of an own server under the same version is
// refused, flagged and logged, also by another process and after the version was removed. The
// other own servers are published. A difference in white space or order is no change.
func TestOwnRecordsDoNotChange(t *testing.T) {
	const name = "com.example/notes"
	m := newFixture(t)
	notes := registry.OwnServer{Name: name, Title: "Notes", URL: "https://notes.example.com/mcp"}
	var own []registry.Item
	process := func() {
		m.restart(func(c *mirror.Config) { c.Client, c.Own = nil, func() []registry.Item { return own } })
	}
	process()
	own = ownItems(t, notes)
	m.sync(mirror.SyncOptions{})
	first := m.entry(name, "1.0.0")

	other := notes
	other.Title = "Other notes"
	files := registry.OwnServer{Name: "com.example/files", URL: "https://files.example.com/mcp"}
	deprecated := other
	deprecated.Status = registry.StatusDeprecated
	for what, changed := range map[string]registry.OwnServer{
		"another title": other,
		"another place": {Name: name, Title: "Notes", URL: "https://elsewhere.example.com/mcp"},
		"scopes":        {Name: name, Title: "Notes", URL: "https://notes.example.com/mcp", Scopes: []registry.OwnScope{{Name: "notes:read"}}},
		"and a status":  deprecated,
	} {
		own = ownItems(t, changed, files)
		process()
		m.later(time.Hour)
		report := m.sync(mirror.SyncOptions{})
		e := m.entry(name, "1.0.0")
		if string(e.Server) != string(first.Server) || !slices.Equal(e.Flags, []string{mirror.FlagChanged}) || report.Changed != 1 || m.status().Changed != 1 {
			t.Errorf("%s: %+v %s %q", what, report, e.Server, e.Flags)
		}
		if want := string(changed.Status); want != "" && e.Status != want {
			t.Errorf("%s: the status %q", what, e.Status)
		}
		if log := m.logs.String(); !strings.Contains(log, "is refused") || !strings.Contains(log, name) {
			t.Errorf("%s: nothing is logged:\n%s", what, log)
		}
		if !slices.Contains(m.listed(), "com.example/files 1.0.0") {
			t.Errorf("%s: what is beside it is left out: %q", what, m.listed())
		}
	}
	own = ownItems(t, files)
	m.sync(mirror.SyncOptions{})
	own = ownItems(t, other, files)
	if m.sync(mirror.SyncOptions{}); string(m.entry(name, "1.0.0").Server) != string(first.Server) {
		t.Error("it changed while it was away")
	}
	// The same record with other white space is unchanged.
	var indented strings.Builder
	encoder := json.NewEncoder(&indented)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(json.RawMessage(first.Server)); err != nil {
		t.Fatal(err)
	}
	own = ownItems(t, registry.OwnServer{Record: json.RawMessage(indented.String())})
	m.sync(mirror.SyncOptions{})
	if e := m.entry(name, "1.0.0"); len(e.Flags) > 0 || string(e.Server) != string(first.Server) || m.status().Changed != 0 {
		t.Errorf("%q %s", e.Flags, e.Server)
	}
	newer := other
	newer.Version = "1.1.0"
	own = ownItems(t, notes, newer)
	m.sync(mirror.SyncOptions{})
	if e := m.entry(name, "1.1.0"); !e.Latest || !strings.Contains(string(e.Server), "Other notes") || len(m.entry(name, "1.0.0").Flags) > 0 {
		t.Errorf("with another version: %+v", e)
	}
	// Only AcceptChanged accepts the change, also of what was refused before.
	own = ownItems(t, other, newer)
	m.sync(mirror.SyncOptions{})
	m.sync(mirror.SyncOptions{AcceptChanged: true})
	if e := m.entry(name, "1.0.0"); !strings.Contains(string(e.Server), "Other notes") || len(e.Flags) > 0 {
		t.Errorf("taken over: %s %q", e.Server, e.Flags)
	}
}

// TestOwnNameListedOnce: one item of the upstream with the name of an own server, valid or
// not, in an increment or a full crawl, is enough to flag the own server.
func TestOwnNameListedOnce(t *testing.T) {
	const name = "com.example/server-000003"
	good := registrytest.Record(name, "7.0.0")
	for what, record := range map[string]string{
		"a good one":         good,
		"the same version":   registrytest.Record(name, "1.0.0"),
		"one that is broken": strings.Replace(good, `"description"`, `"undescribed"`, 1),
	} {
		for _, order := range []mirror.SyncOptions{{}, {Full: true}} {
			m := newFixture(t)
			m.upstream.Fill(2)
			own := ownItems(t, registry.OwnServer{Name: name, URL: "https://notes.example.com/mcp"})
			m.restart(func(c *mirror.Config) { c.Own = func() []registry.Item { return own } })
			m.sync(mirror.SyncOptions{})
			if flaggedConflict(m, name) || m.status().Conflicts != 0 {
				t.Fatal("a conflict without a server of the upstream")
			}
			if what == "one that is broken" {
				m.upstream.Publish(good)
				m.upstream.Rewrite(name, "7.0.0", record)
			} else {
				m.upstream.Publish(record)
			}
			m.later(time.Hour)
			report := m.sync(order)
			if !flaggedConflict(m, name) || m.status().Conflicts != 1 || report.Conflicts != 1 {
				t.Errorf("%s, %+v: %+v", what, order, report)
			}
			if e := m.entry(name, "1.0.0"); string(e.Server) != string(own[0].Record.Raw()) || e.Status != "active" || len(m.listed()) != 3 {
				t.Errorf("%s, %+v: %+v", what, order, e)
			}
		}
	}
}

// TestConflictIsFlaggedAtOnce: an own server is flagged as soon as the catalogue shows that
// the upstream has its name: when the own server is added, when it gets another version, and
// when the upstream lists the name. Deleted versions of the upstream do not count.
func TestConflictIsFlaggedAtOnce(t *testing.T) {
	const name = "com.example/server-000003"
	m := newFixture(t)
	m.upstream.Fill(5)
	m.sync(mirror.SyncOptions{})
	server := registry.OwnServer{Name: name, URL: "https://notes.example.com/mcp"}
	own := ownItems(t, server)
	m.restart(func(c *mirror.Config) { c.Own = func() []registry.Item { return own } })
	if err := m.keeper.PublishOwn(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !flaggedConflict(m, name) || m.status().Conflicts != 1 {
		t.Error("there is no conflict when we take the name")
	}
	server.Version = "2.0.0"
	own = append(own, ownItems(t, server)...)
	if err := m.keeper.PublishOwn(t.Context()); err != nil {
		t.Fatal(err)
	}
	if e := m.entry(name, "2.0.0"); !slices.Contains(e.Flags, mirror.FlagConflict) || m.status().Conflicts != 2 {
		t.Errorf("another version of the own server has the flags %q", e.Flags)
	}
	m.upstream.SetStatus(name, "1.0.0", registry.StatusDeleted, "gone")
	m.sync(mirror.SyncOptions{Full: true})
	if e := m.entry(name, "2.0.0"); flaggedConflict(m, name) || len(e.Flags) > 0 || m.status().Conflicts != 0 {
		t.Error("there is a conflict with what the upstream has deleted")
	}
}
