package registry_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"gatehouse.example/registry"
)

// TestC3OwnRecordsDoNotChange: another record under a name and version of ours that readers
// have seen is refused, flagged and logged, also by another process and when the version had
// left the list; all else in the list counts. What is written differently is the same.
func TestC3OwnRecordsDoNotChange(t *testing.T) {
	const name = "com.example/notes"
	m := newMirror(t)
	notes := registry.OwnServer{Name: name, Title: "Notes", URL: "https://notes.example.com/mcp"}
	var own []registry.Item
	process := func() {
		m.restart(func(c *registry.AggregatorConfig) { c.Client, c.Own = nil, func() []registry.Item { return own } })
	}
	process()
	own = ownItems(t, notes)
	m.sync(registry.Order{})
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
		report := m.sync(registry.Order{})
		e := m.entry(name, "1.0.0")
		if string(e.Server) != string(first.Server) || !slices.Equal(e.Flags, []string{registry.FlagChanged}) || report.Changed != 1 || m.status().Changed != 1 {
			t.Errorf("%s: %+v %s %q", what, report, e.Server, e.Flags)
		}
		if want := string(changed.Status); want != "" && e.Status != want {
			t.Errorf("%s: the status %q", what, e.Status)
		}
		if log := m.logs.String(); !strings.Contains(log, "is refused") || !strings.Contains(log, name) {
			t.Errorf("%s: nobody is told:\n%s", what, log)
		}
		if !slices.Contains(m.listed(), "com.example/files 1.0.0") {
			t.Errorf("%s: what is beside it is left out: %q", what, m.listed())
		}
	}
	own = ownItems(t, files)
	m.sync(registry.Order{})
	own = ownItems(t, other, files)
	if m.sync(registry.Order{}); string(m.entry(name, "1.0.0").Server) != string(first.Server) {
		t.Error("it changed while it was away")
	}
	// The same record in other words is the same.
	var indented strings.Builder
	encoder := json.NewEncoder(&indented)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(json.RawMessage(first.Server)); err != nil {
		t.Fatal(err)
	}
	own = ownItems(t, registry.OwnServer{Record: json.RawMessage(indented.String())})
	m.sync(registry.Order{})
	if e := m.entry(name, "1.0.0"); len(e.Flags) > 0 || string(e.Server) != string(first.Server) || m.status().Changed != 0 {
		t.Errorf("%q %s", e.Flags, e.Server)
	}
	newer := other
	newer.Version = "1.1.0"
	own = ownItems(t, notes, newer)
	m.sync(registry.Order{})
	if e := m.entry(name, "1.1.0"); !e.Latest || !strings.Contains(string(e.Server), "Other notes") || len(m.entry(name, "1.0.0").Flags) > 0 {
		t.Errorf("with another version: %+v", e)
	}
	// Only somebody who says so takes the change over.
	own = ownItems(t, other, newer)
	m.sync(registry.Order{AcceptChanged: true})
	if e := m.entry(name, "1.0.0"); !strings.Contains(string(e.Server), "Other notes") || len(e.Flags) > 0 {
		t.Errorf("taken over: %s %q", e.Server, e.Flags)
	}
}
