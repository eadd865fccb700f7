package registry_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"gatehouse.example/registry"
	"gatehouse.example/storage/catalogue"
)

// TestA9UnknownStatusIsNeverActive: a record whose status nobody understands is hidden and
// flagged, in whatever form it is told, until the upstream gives it one that is known.
func TestA9UnknownStatusIsNeverActive(t *testing.T) {
	const name = "com.example/server-000001"
	record := `"name":"` + name + `","description":"A server.","version":"1.0.0"`
	bare := `{` + record + `}`
	for what, element := range map[string]string{
		"beside":             `{"server":` + bare + `,"_meta":{"` + registry.MetaOfficial + `":{"status":"quarantined"}}}`,
		"in another case":    `{"server":` + bare + `,"_meta":{"` + registry.MetaOfficial + `":{"status":"Active"}}}`,
		"empty":              `{"server":` + bare + `,"_meta":{"` + registry.MetaOfficial + `":{"status":""}}}`,
		"a number":           `{"server":` + bare + `,"_meta":{"` + registry.MetaOfficial + `":{"status":7}}}`,
		"flat":               `{` + record + `,"status":"suspended"}`,
		"flat, null":         `{` + record + `,"status":null}`,
		"without its key":    `{"server":` + bare + `,"_meta":{"status":"on hold"}}`,
		"two that differ":    `{"server":` + bare + `,"status":"active","_meta":{"` + registry.MetaOfficial + `":{"status":"deleted"}}}`,
		"of a broken record": `{"server":{"name":"` + name + `","version":"1.0.0"},"_meta":{"` + registry.MetaOfficial + `":{"status":"quarantined"}}}`,
	} {
		t.Run(what, func(t *testing.T) {
			m := newMirror(t)
			m.upstream.Fill(3)
			m.sync(registry.Order{})
			m.answering(`{"servers":[` + element + `]}`)
			m.later(time.Hour)
			m.sync(registry.Order{})
			hidden := m.entry(name, "1.0.0")
			if slices.Contains(m.listed(), name+" 1.0.0") || hidden.Status != catalogue.StatusDeleted || !slices.Equal(hidden.Flags, []string{registry.FlagStatus}) ||
				!strings.Contains(hidden.StatusMessage, "status") || m.status().UnknownStatus != 1 {
				t.Errorf("%v %+v", m.listed(), hidden)
			}
			m.later(time.Hour)
			m.answering(`{"servers":[{"server":` + bare + `,"_meta":{"` + registry.MetaOfficial + `":{"status":"active"}}}]}`)
			m.sync(registry.Order{AcceptChanged: true})
			if e := m.entry(name, "1.0.0"); e.Status != "active" || len(e.Flags) > 0 || m.status().UnknownStatus != 0 || e.StatusMessage != "" {
				t.Errorf("known again: %+v", e)
			}
		})
	}
}

// answering puts another upstream in place of the one there was. It always says the same.
func (m *mirror) answering(list string) {
	m.Helper()
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(list))
	}))
	m.Cleanup(upstream.Close)
	m.restart(func(c *registry.AggregatorConfig) {
		c.Client = newClient(m.T, registry.ClientConfig{Base: upstream.URL, Now: m.clock.Now})
	})
}

// TestA9StatusBesideWhatCannotBeRead: where the status can be read, and something beside it
// cannot, the status is believed.
func TestA9StatusBesideWhatCannotBeRead(t *testing.T) {
	m := newMirror(t)
	m.upstream.Fill(2)
	m.sync(registry.Order{})
	const name = "com.example/server-000001"
	m.answering(`{"servers":[{"server":{"name":"` + name + `","description":"A server.","version":"1.0.0"},"_meta":{"` +
		registry.MetaOfficial + `":{"status":"deprecated","isLatest":"yes"}}}]}`)
	m.sync(registry.Order{})
	if e := m.entry(name, "1.0.0"); e.Status != "deprecated" || len(e.Flags) > 0 {
		t.Errorf("%+v", e)
	}
}

// TestA9StatusOnRecord: a row that somebody stored with a status of his own is not shown.
func TestA9StatusOnRecord(t *testing.T) {
	d := newDesk(t, registry.HandlerConfig{}, rowOf("com.example/a", "1.0.0"), rowOf("com.example/b", "1.0.0", func(e *catalogue.Entry) { e.Status = "archived" }))
	for _, target := range []string{"/v0.1/servers", "/v0.1/servers?shape=record", "/", "/v0.1/servers/com.example%2Fb/versions/1.0.0", "/v0.1/servers/com.example%2Fb/versions", "/servers/com.example/b"} {
		if w := d.get(target); strings.Contains(w.Body.String(), `"com.example/b"`) || strings.Contains(w.Body.String(), `>com.example/b<`) {
			t.Errorf("%s: %d %s", target, w.Code, w.Body)
		}
	}
}

// TestA9VersionsAreVisible: no version, and nothing that is copied out of a record, has a
// character in it that nobody sees.
func TestA9VersionsAreVisible(t *testing.T) {
	for _, c := range "\u200b\u200d\u200e\u202e\u2066\u00ad\ufeff\u2060\u034f\u115f\u1160\u17b4\u180e\u2800\u3164\uffa0\ufe0f\U000e0041\U000e0101\u2028\u00a0\u3000\u0085\u007f\ue000\u0378" {
		for _, version := range []string{"1.0.0" + string(c), "1." + string(c) + "0.0", string(c) + "1.0.0"} {
			if _, err := registry.ParseRecord(minimal(object{"version": version})); err == nil {
				t.Errorf("%+q is a version", version)
			}
			in := object{"packages": []any{object{"registryType": "example", "identifier": "notes", "version": version, "transport": object{"type": "stdio"}}}}
			if _, err := registry.ParseRecord(minimal(in)); err == nil {
				t.Errorf("%+q is the version of a package", version)
			}
		}
		in := object{"packages": []any{object{"registryType": "example", "identifier": "no" + string(c) + "tes", "version": "1.0.0", "transport": object{"type": "stdio"}}}}
		if _, err := registry.ParseRecord(minimal(in)); err == nil {
			t.Errorf("an identifier has %+q in it", c)
		}
		if _, err := registry.ParseRecord(minimal(object{"websiteUrl": "https://example.com/" + string(c)})); err == nil {
			t.Errorf("a link has %+q in it", c)
		}
	}
	for _, version := range []string{"1.0.0", "2025 edition", "1.0.0-β", "versión-é", "第1版", "v1+build.7"} {
		if _, err := registry.ParseRecord(minimal(object{"version": version})); err != nil {
			t.Errorf("%+q: %v", version, err)
		}
	}
}

// TestA9MembersWithoutWorth: _meta that is null, and members that nobody knows and that are
// nested too deep, are lost, and not the record. All else keeps its bytes.
func TestA9MembersWithoutWorth(t *testing.T) {
	deep := strings.Repeat(`[`, 60) + strings.Repeat(`]`, 60)
	const known = `"name" : "com.example/notes","description":"N[{\"}","version":"1.0.0"`
	for what, test := range map[string]struct{ item, record, meta string }{
		"null beside":       {`{"server":{` + known + `},"_meta":null}`, `{` + known + `}`, ""},
		"null inside":       {`{"server":{` + known + `,"_meta": null}}`, `{` + known + `}`, ""},
		"null, flat":        {`{` + known + `,"_meta":null}`, `{` + known + `}`, ""},
		"null in both":      {`{"_meta":null,"server":{"_meta":null,` + known + `}}`, `{` + known + `}`, ""},
		"deep, flat":        {`{` + known + `,"x":` + deep + `,"y":1}`, `{` + known + `,"y":1}`, ""},
		"deep in it":        {`{"server":{"x":` + deep + `,` + known + `}}`, `{` + known + `}`, ""},
		"deep beside":       {`{"server":{` + known + `},"x":{"a":` + deep + `}}`, `{` + known + `}`, ""},
		"deep under a key":  {`{"server":{` + known + `},"_meta":{"com.example/a":` + deep + `,"com.example/b":2}}`, `{` + known + `}`, "2"},
		"deep in a package": {`{"server":{` + known + `,"packages":[{"registryType":"a","identifier":"b","x":` + deep + `,"transport":{"type":"stdio"}}]}}`, `{` + known + `,"packages":[{"registryType":"a","identifier":"b","transport":{"type":"stdio"}}]}`, ""},
	} {
		item, err := registry.ParseItem([]byte(test.item))
		if err != nil || string(item.Record.Raw()) != test.record || string(item.Meta["com.example/b"]) != test.meta {
			t.Errorf("%s: %v\n%s\n%s", what, err, item.Record.Raw(), item.Meta)
		}
	}
	for what, item := range map[string]string{
		"a known member that is deep":  `{` + known + `,"icons":` + deep + `}`,
		"_meta twice":                  `{` + known + `,"_meta":null,"_meta":{"com.example/a":1}}`,
		"_meta that is something else": `{"server":{` + known + `},"_meta":7}`,
	} {
		if _, err := registry.ParseItem([]byte(item)); err == nil {
			t.Errorf("%s is an item", what)
		}
	}
}

// TestA9ConflictIsFlaggedAtOnce: a record of ours is flagged as soon as it is known that the
// upstream has its name: when we take the name, when another version of ours comes, and when
// the upstream lists it; and not for what the upstream has deleted.
func TestA9ConflictIsFlaggedAtOnce(t *testing.T) {
	const name = "com.example/server-000003"
	m := newMirror(t)
	m.upstream.Fill(5)
	m.sync(registry.Order{})
	server := registry.OwnServer{Name: name, URL: "https://notes.example.com/mcp"}
	own := ownItems(t, server)
	m.restart(func(c *registry.AggregatorConfig) { c.Own = func() []registry.Item { return own } })
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
	if e := m.entry(name, "2.0.0"); !slices.Contains(e.Flags, registry.FlagConflict) || m.status().Conflicts != 2 {
		t.Errorf("another version of ours has the flags %q", e.Flags)
	}
	m.upstream.SetStatus(name, "1.0.0", registry.StatusDeleted, "gone")
	m.sync(registry.Order{Full: true})
	if e := m.entry(name, "2.0.0"); flaggedConflict(m, name) || len(e.Flags) > 0 || m.status().Conflicts != 0 {
		t.Error("there is a conflict with what the upstream has deleted")
	}
}
