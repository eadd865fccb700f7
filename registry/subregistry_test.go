package registry_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gatehouse.example/message"
	"gatehouse.example/registry"
	"gatehouse.example/storage"
)

func TestNameFor(t *testing.T) {
	for _, tt := range []struct{ url, want string }{
		{"https://notes.example.com/mcp", "com.example.notes/mcp"},
		{"https://Notes.Example.COM./mcp/", "com.example.notes/mcp"},
		{"https://example.com", "com.example/server"},
		{"https://example.com/", "com.example/server"},
		{"https://example.com:8443/a/b c", "com.example/8443-a-b-c"},
		{"http://127.0.0.1:8081/mcp", "ip.127-0-0-1/8081-mcp"},
		{"http://[::1]:8081/mcp", "ip.--1/8081-mcp"},
		{"http://localhost:8081/mcp", "localhost/8081-mcp"},
		{"https://example.com/%E2%82%AC", ""},
		{"https://example.com/" + strings.Repeat("a", 200), ""},
		{"notes", ""},
		{"", ""},
		{"https://", ""},
	} {
		got, err := registry.NameFor(tt.url)
		if got != tt.want || (err != nil) != (tt.want == "") {
			t.Errorf("%s: %q %v, want %q", tt.url, got, err, tt.want)
		}
	}
}

func TestOwnServer(t *testing.T) {
	whole := json.RawMessage(`{"$schema":"` + registry.CurrentSchema + `","name":"com.example/notes","description":"Notes.","version":"3.0.0"}`)
	for _, tt := range []struct {
		name   string
		server registry.OwnServer
		want   string // parts of the record, separated by bars
		err    string
	}{
		{"an address alone", registry.OwnServer{URL: "https://notes.example.com/mcp"},
			`"$schema":"` + registry.CurrentSchema + `"|"name":"com.example.notes/mcp"|"version":"1.0.0"|"description":"at notes.example.com"|"remotes":[{"type":"streamable-http","url":"https://notes.example.com/mcp"}]`, ""},
		{"everything", registry.OwnServer{
			Name: "com.example/notes", Version: "2.1.0", Title: "Notes", Description: "Your notes.", Website: "https://notes.example.com", URL: "https://notes.example.com/sse", Transport: "sse",
			Scopes: []registry.OwnScope{{Name: "notes:read", Description: "Read your notes"}, {Name: "notes:write"}},
			Icons:  []message.Icon{{Src: "https://notes.example.com/icon.png", MIMEType: "image/png", Sizes: []string{"48x48"}}}, Status: registry.StatusDeprecated, StatusMessage: "moved",
		}, `"title":"Notes"|"websiteUrl":"https://notes.example.com"|"type":"sse"|"icons":[{"src":"https://notes.example.com/icon.png","mimeType":"image/png","sizes":["48x48"]}]|` +
			`"_meta":{"io.modelcontextprotocol.registry/publisher-provided":{"resource":"https://notes.example.com/sse","scopes":[{"name":"notes:read","description":"Read your notes"},{"name":"notes:write"}]}}`, ""},
		{"a title", registry.OwnServer{Title: "Notes", URL: "https://notes.example.com/mcp"}, `"description":"Notes at notes.example.com"`, ""},
		{"a long title", registry.OwnServer{Title: strings.Repeat("n", 100), URL: "https://notes.example.com/mcp"}, `"description":"` + strings.Repeat("n", 100) + `"`, ""},
		{"a whole record", registry.OwnServer{Record: whole}, string(whole), ""},
		{"a whole record and more", registry.OwnServer{Record: whole, Title: "Notes"}, "", "nothing beside it"},
		{"a whole record that is none", registry.OwnServer{Record: json.RawMessage(`{}`)}, "", "name"},
		{"nothing", registry.OwnServer{}, "", "no URL"},
		{"another transport", registry.OwnServer{URL: "https://notes.example.com/mcp", Transport: "stdio"}, "", "remotes"},
		{"a version that is none", registry.OwnServer{URL: "https://notes.example.com/mcp", Version: "latest"}, "", "latest"},
		{"an icon over http", registry.OwnServer{URL: "https://notes.example.com/mcp", Icons: []message.Icon{{Src: "http://notes.example.com/i.png"}}}, "", "icons[0]"},
		{"a status that is none", registry.OwnServer{URL: "https://notes.example.com/mcp", Status: "gone"}, "", "status"},
		{"a status with a book", registry.OwnServer{URL: "https://notes.example.com/mcp", StatusMessage: strings.Repeat("a", 501)}, "", "500"},
		{"a version of many bytes", registry.OwnServer{URL: "https://notes.example.com/mcp", Version: strings.Repeat("𝟙", 200)}, "", "512 bytes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			item, err := tt.server.Item()
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("%v, want %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			for part := range strings.SplitSeq(tt.want, "|") {
				if !strings.Contains(string(item.Record.Raw()), part) {
					t.Errorf("%s lacks %s", item.Record.Raw(), part)
				}
			}
			if item.Official.Status == "" || tt.server.Status != "" && item.Official.Status != tt.server.Status {
				t.Errorf("%+v", item.Official)
			}
		})
	}
}

func ownItems(t *testing.T, servers ...registry.OwnServer) []registry.Item {
	t.Helper()
	var items []registry.Item
	for _, s := range servers {
		item, err := s.Item()
		if err != nil {
			t.Fatal(err)
		}
		items = append(items, item)
	}
	return items
}

func TestCheckOwn(t *testing.T) {
	notes := registry.OwnServer{URL: "https://notes.example.com/mcp"}
	newer := notes
	newer.Version = "1.1.0"
	if err := registry.CheckOwn(ownItems(t, notes, newer)); err != nil {
		t.Error(err)
	}
	if err := registry.CheckOwn(ownItems(t, notes, newer, notes)); err == nil || !strings.Contains(err.Error(), "two of com.example.notes/mcp 1.0.0") {
		t.Error(err)
	}
	if err := registry.CheckOwn(make([]registry.Item, registry.MaxOwn+1)); err == nil {
		t.Error("too many are accepted")
	}
}

// Servers of our own are there at once, change, and leave, with and without an upstream.
func TestOwnServers(t *testing.T) {
	m := newMirror(t)
	notes := registry.OwnServer{Name: "com.example/notes", Title: "Notes", URL: "https://notes.example.com/mcp"}
	files := registry.OwnServer{Name: "com.example/files", URL: "https://files.example.com/mcp"}
	var own []registry.Item
	m.restart(func(c *registry.AggregatorConfig) { c.Client, c.Own = nil, func() []registry.Item { return own } })
	own = ownItems(t, notes, files)
	if report := m.sync(registry.Order{}); report.Mode != registry.ModeOwn || report.Added != 2 || m.status().Own != 2 {
		t.Errorf("%+v", report)
	}
	first := m.entry("com.example/notes", "1.0.0")
	if first.Origin != registry.OriginOwn || !first.Latest || first.Status != "active" || first.Published.IsZero() || string(first.Server) != string(own[0].Record.Raw()) {
		t.Errorf("%+v", first)
	}
	committed := m.status().Committed
	m.restart(func(c *registry.AggregatorConfig) { c.Client, c.Own = nil, func() []registry.Item { return own } })
	if m.sync(registry.Order{}); m.status().Committed != committed {
		t.Error("what is the same is written again")
	}

	newer := notes
	newer.Title, newer.Version = "All notes", "1.1.0"
	notes.Status = registry.StatusDeprecated
	own = ownItems(t, notes, newer)
	m.later(time.Hour)
	if report := m.sync(registry.Order{}); report.Added != 1 || report.Updated != 1 || report.Deleted != 1 {
		t.Errorf("%+v", report)
	}
	if e := m.entry("com.example/notes", "1.0.0"); e.Latest || e.Status != "deprecated" || !e.Published.Equal(first.Published) || !e.Updated.After(first.Updated) {
		t.Errorf("%+v", e)
	}
	if e := m.entry("com.example/files", "1.0.0"); e.Status != "deleted" || !strings.Contains(e.StatusMessage, "any more") {
		t.Errorf("%+v", e)
	}
	own = ownItems(t, files, newer)
	m.sync(registry.Order{})
	if !slices.Equal(m.listed(), []string{"com.example/files 1.0.0", "com.example/notes 1.1.0"}) || m.entry("com.example/files", "1.0.0").StatusMessage != "" {
		t.Errorf("%v", m.listed())
	}

	m.restart(func(c *registry.AggregatorConfig) { c.Client = nil }) // one that knows of none leaves them alone
	m.sync(registry.Order{})
	if len(m.listed()) != 2 {
		t.Errorf("%v", m.listed())
	}
	own = nil
	m.restart(func(c *registry.AggregatorConfig) { c.Client, c.Own = nil, func() []registry.Item { return own } })
	m.sync(registry.Order{})
	if s := m.status(); len(m.listed()) != 0 || s.Own != 0 {
		t.Errorf("%v %+v", m.listed(), s)
	}
}

// A name of ours is ours: whoever has it upstream, and whenever they had it.
func TestOwnServersWin(t *testing.T) {
	m := newMirror(t)
	const name = "com.example/server-000003"
	m.upstream.Fill(12)
	m.upstream.Add(name, "2.0.0")
	m.sync(registry.Order{})

	own := ownItems(t, registry.OwnServer{Name: name, URL: "https://notes.example.com/mcp"})
	with := func(c *registry.AggregatorConfig) { c.Own = func() []registry.Item { return own } }
	m.restart(with)
	m.later(time.Hour)
	m.sync(registry.Order{})
	ours := m.entry(name, "1.0.0")
	if ours.Origin != registry.OriginOwn || !ours.Latest || string(ours.Server) != string(own[0].Record.Raw()) {
		t.Errorf("%+v", ours)
	}
	if theirs := m.entry(name, "2.0.0"); theirs.Status != "deleted" || !slices.Equal(theirs.Flags, []string{registry.FlagShadowed}) || theirs.Latest {
		t.Errorf("%+v", theirs)
	}
	m.upstream.SetStatus(name, "1.0.0", registry.StatusDeleted, "malware")
	m.upstream.Add(name, "3.0.0")
	m.later(time.Hour)
	report := m.sync(registry.Order{})
	ours = m.entry(name, "1.0.0")
	if report.Conflicts < 2 || ours.Status != "active" || !ours.Latest || !slices.Equal(ours.Flags, []string{registry.FlagConflict}) || m.status().Conflicts != 1 {
		t.Errorf("%+v %+v", report, ours)
	}
	if _, err := m.catalogue.Entry(t.Context(), name, "3.0.0"); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("what the upstream has under a name of ours is there: %v", err)
	}
	if n := strings.Count(m.logs.String(), "ours stays"); n != 1 {
		t.Errorf("it is logged %d times", n)
	}
	m.later(8 * 24 * time.Hour)
	if report := m.sync(registry.Order{}); report.Mode != registry.ModeFull || report.Missing != 0 || !flaggedConflict(m, name) {
		t.Errorf("%+v", report)
	}

	// When the upstream has no such name any more, that is no conflict any more.
	m.upstream.Remove(name, "1.0.0")
	m.upstream.Remove(name, "2.0.0")
	m.upstream.Remove(name, "3.0.0")
	m.later(8 * 24 * time.Hour)
	if m.sync(registry.Order{}); flaggedConflict(m, name) || m.status().Conflicts != 0 {
		t.Error("there is still a conflict")
	}
	m.upstream.Add(name, "1.0.0")
	m.upstream.Add(name, "2.0.0")
	m.later(time.Hour)
	m.sync(registry.Order{})

	// When it is not ours any more, it is theirs: at once, not in a week.
	own = nil
	m.later(time.Hour)
	if report := m.sync(registry.Order{}); report.Mode != registry.ModeFull {
		t.Errorf("%+v", report)
	}
	theirs := m.entry(name, "1.0.0")
	if theirs.Origin != registry.OriginUpstream || theirs.Status != "active" || len(theirs.Flags) > 0 || !m.entry(name, "2.0.0").Latest || m.status().Shadowed != 0 {
		t.Errorf("%+v", theirs)
	}
}

func flaggedConflict(m *mirror, name string) bool {
	return slices.Contains(m.entry(name, "1.0.0").Flags, registry.FlagConflict)
}

// write replaces a file, with a time that is not that of the one before.
func write(t *testing.T, path, text string, at time.Time) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, at, at); err != nil {
		t.Fatal(err)
	}
}

func TestMetaFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "meta.json")
	clock := &waiting{now: time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC)}
	logs := &logs{}
	config := registry.FileConfig{Path: path, Now: clock.Now, Logger: slog.New(slog.NewTextHandler(logs, nil))}
	if _, err := registry.OpenMetaFile(config, nil); err == nil {
		t.Error("a file that is not there is accepted")
	}
	write(t, path, `{"com.example.notes/mcp": {"stars": 4, "scan":"none"}, "com.example.notes/mcp@1.0.0":{"scan":  "clean"}}`, clock.Now())
	file, err := registry.OpenMetaFile(config, nil)
	if err != nil {
		t.Fatal(err)
	}
	says := func(version string) string {
		t.Helper()
		said, err := file.Enrich(ownItems(t, registry.OwnServer{URL: "https://notes.example.com/mcp", Version: version})[0])
		if err != nil {
			t.Error(err)
		}
		return string(said)
	}
	if got := says("1.0.0"); got != `{"scan":  "clean","stars": 4}` {
		t.Errorf("%s", got)
	}
	if got := says("2.0.0"); got != `{"stars": 4, "scan":"none"}` {
		t.Errorf("%s", got)
	}
	revision := file.Revision()

	clock.Wait(t.Context(), 10*time.Second)
	if file.Revision() != revision {
		t.Error("another revision of the same file")
	}
	write(t, path, `{"com.example.notes/mcp":{"stars":5}}`, clock.Now())
	if says("2.0.0") == `{"stars":5}` {
		t.Error("the file is looked at more often than once a second")
	}
	clock.Wait(t.Context(), time.Second)
	if got := says("2.0.0"); got != `{"stars":5}` || file.Revision() == revision {
		t.Errorf("%s", got)
	}
	revision = file.Revision()

	// A file that was written twice at once, with the same size, was read in between.
	write(t, path, `{"com.example.notes/mcp":{"stars":3}}`, clock.Now().Add(-time.Second))
	clock.Wait(t.Context(), time.Second)
	if says("2.0.0") != `{"stars":3}` || file.Revision() == revision {
		t.Error("the second version of a file is not seen")
	}
	at := clock.Now()
	write(t, path, `{"com.example.notes/mcp":{"stars":2}}`, at)
	clock.Wait(t.Context(), time.Second)
	says("2.0.0")
	write(t, path, `{"com.example.notes/mcp":{"stars":1}}`, at)
	clock.Wait(t.Context(), time.Second)
	if says("2.0.0") != `{"stars":1}` {
		t.Error("the third version of a file is not seen")
	}
	revision = file.Revision()

	for _, broken := range []string{`{`, `[]`, `{"com.example.notes/mcp":5}`, `{"no name":{}}`, `{"com.example.notes/mcp@latest":{}}`, `{"com.example.notes/mcp":{},"com.example.notes/mcp":{}}`,
		`{"com.example.notes/mcp":{"a":"` + strings.Repeat("a", 40<<10) + `"}}`} {
		write(t, path, broken, clock.Now())
		for range 3 {
			clock.Wait(t.Context(), 5*time.Second)
			if says("2.0.0") != `{"stars":1}` || file.Revision() != revision {
				t.Errorf("a file with %.50s counts", broken)
			}
		}
		if _, err := registry.OpenMetaFile(config, nil); err == nil {
			t.Errorf("%.50s is accepted", broken)
		}
	}
	if n := strings.Count(logs.String(), "cannot be used"); n != 7 {
		t.Errorf("it is logged %d times:\n%s", n, logs)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	clock.Wait(t.Context(), time.Minute)
	if says("2.0.0") != `{"stars":1}` {
		t.Error("without a file nothing holds")
	}
	write(t, path, `{"com.example.notes/mcp":{"stars":9}}`, clock.Now())
	clock.Wait(t.Context(), time.Minute)
	if says("2.0.0") != `{"stars":9}` {
		t.Error("the file that is there again is not read")
	}
}

func TestOwnFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "servers")
	clock := &waiting{now: time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC)}
	decode := func(data []byte) (servers []registry.OwnServer, err error) {
		for line := range strings.Lines(string(data)) {
			servers = append(servers, registry.OwnServer{URL: strings.TrimSpace(line)})
		}
		return servers, nil
	}
	open := func() (*registry.OwnFile, error) {
		return registry.OpenOwnFile(registry.FileConfig{Path: path, Now: clock.Now}, decode)
	}
	for _, broken := range []string{"notes\n", "https://notes.example.com/mcp\nhttps://notes.example.com/mcp\n"} {
		write(t, path, broken, clock.Now())
		if _, err := open(); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%q: %v", broken, err)
		}
	}
	write(t, path, "https://notes.example.com/mcp\n", clock.Now())
	file, err := open()
	if err != nil {
		t.Fatal(err)
	}
	names := func() string {
		var names []string
		for _, item := range file.Items() {
			names = append(names, item.Record.Name())
		}
		return fmt.Sprint(names)
	}
	if got := names(); got != "[com.example.notes/mcp]" {
		t.Error(got)
	}
	write(t, path, "https://files.example.com/mcp\n", clock.Now())
	clock.Wait(t.Context(), time.Second)
	if got := names(); got != "[com.example.files/mcp]" {
		t.Error(got)
	}
}
