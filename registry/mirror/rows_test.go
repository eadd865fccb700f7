package mirror_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"gatehouse.example/registry"
	"gatehouse.example/registry/mirror"
	"gatehouse.example/registry/registrytest"
	"gatehouse.example/storage/catalogue"
)

// A restored version is listed again, and the highest version that is not deleted is the latest.
func TestLatestFollowsStatus(t *testing.T) {
	m := newFixture(t)
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
		m.sync(mirror.SyncOptions{})
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

// The record of a version stays; its status and _meta follow the upstream.
func TestImmutable(t *testing.T) {
	m := newFixture(t)
	const name = "com.example/notes"
	first := registrytest.Record(name, "1.0.0")
	m.upstream.Publish(first)
	m.upstream.Add("com.example/other", "1.0.0")
	m.sync(mirror.SyncOptions{})

	m.upstream.Rewrite(name, "1.0.0", strings.ReplaceAll(first, `,"`, ", \n\t\""))
	if report := m.sync(mirror.SyncOptions{}); report.Changed != 0 || len(m.entry(name, "1.0.0").Flags) > 0 {
		t.Errorf("white space is a change: %+v", report)
	}
	other := strings.Replace(first, "What com", "Free money from com", 1)
	m.upstream.Rewrite(name, "1.0.0", other)
	m.upstream.SetStatus(name, "1.0.0", registry.StatusDeprecated, "moved")
	for range 2 {
		report := m.sync(mirror.SyncOptions{Full: true})
		e := m.entry(name, "1.0.0")
		if report.Changed != 1 || string(e.Server) != first || !slices.Equal(e.Flags, []string{mirror.FlagChanged}) {
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
	m.sync(mirror.SyncOptions{})
	if e := m.entry(name, "1.0.0"); len(e.Flags) > 0 || m.status().Changed != 0 || !e.Updated.Equal(flagged.Updated) {
		t.Errorf("it is as it was, and flagged or updated: %+v, %+v", e, m.status())
	}
	m.upstream.Rewrite(name, "1.0.0", other)
	if m.sync(mirror.SyncOptions{}); m.status().Changed != 1 {
		t.Errorf("changed again: %+v", m.status())
	}
	if report := m.sync(mirror.SyncOptions{AcceptChanged: true}); report.Changed != 0 || string(m.entry(name, "1.0.0").Server) != other {
		t.Errorf("%+v", report)
	}
}

// An upstream that changes all its records fills no log: 20 lines of a round name one.
func TestChangesAreLoggedBriefly(t *testing.T) {
	m := newFixture(t)
	m.upstream.Fill(25)
	m.sync(mirror.SyncOptions{})
	for i := range 25 {
		name := fmt.Sprintf("com.example/server-%06d", i+1)
		m.upstream.Rewrite(name, "1.0.0", strings.Replace(registrytest.Record(name, "1.0.0"), "What", "Now what", 1))
	}
	report := m.sync(mirror.SyncOptions{})
	if n := strings.Count(m.logs.String(), "differs_in=description"); n != 20 || report.Changed != 25 || m.status().Changed != 25 {
		t.Errorf("%d lines, %+v", n, report)
	}
}

// A row that the upstream does not list any more is deleted and flagged, and restored when the
// upstream lists it again.
func TestVanished(t *testing.T) {
	m := newFixture(t)
	m.upstream.Fill(30)
	m.upstream.Add("com.example/server-000009", "1.1.0")
	m.sync(mirror.SyncOptions{})
	m.upstream.Remove("com.example/server-000009", "1.1.0")
	m.upstream.Remove("com.example/server-000020", "1.0.0")
	m.later(8 * 24 * time.Hour)
	report := m.sync(mirror.SyncOptions{})
	if report.Mode != mirror.ModeFull || report.Missing != 2 || report.Vanished != 2 || report.Deleted != 2 || len(m.listed()) != 29 {
		t.Errorf("%+v", report)
	}
	for id, latest := range map[string]bool{"com.example/server-000009 1.1.0": false, "com.example/server-000020 1.0.0": true} {
		name, version, _ := strings.Cut(id, " ")
		e := m.entry(name, version)
		if e.Status != "deleted" || !strings.Contains(e.StatusMessage, "does not list it") || !slices.Equal(e.Flags, []string{mirror.FlagVanished}) ||
			!e.StatusChanged.Equal(e.Updated) || e.Latest != latest {
			t.Errorf("%+v", e)
		}
	}
	if !m.entry("com.example/server-000009", "1.0.0").Latest || m.status().Vanished != 2 {
		t.Errorf("%+v", m.status())
	}
	m.upstream.Add("com.example/server-000020", "1.0.0")
	m.upstream.Add("com.example/server-000009", "1.1.0")
	m.sync(mirror.SyncOptions{})
	if e := m.entry("com.example/server-000020", "1.0.0"); e.Status != "active" || e.StatusMessage != "" || len(e.Flags) > 0 {
		t.Errorf("%+v", e)
	}
	if !m.entry("com.example/server-000009", "1.1.0").Latest || m.status().Vanished != 0 || len(m.listed()) != 31 {
		t.Errorf("%+v", m.status())
	}
}

// If many rows are missing, none is removed until the operator accepts it.
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
			m := newFixture(t)
			m.upstream.Fill(tt.held)
			m.sync(mirror.SyncOptions{})
			for i := tt.now; i < tt.held; i++ {
				m.upstream.Remove(fmt.Sprintf("com.example/server-%06d", i+1), "1.0.0")
			}
			m.upstream.Add("org.example/new-1", "1.0.0") // new rows do not make up for the loss
			m.upstream.Add("org.example/new-2", "1.0.0")
			report := m.sync(mirror.SyncOptions{Full: true})
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
				t.Errorf("nothing is logged:\n%s", m.logs)
			}
			since := m.status().Shrink.Since
			m.later(25 * time.Hour) // the next full crawl is due before a week is over, and removes nothing either
			if report := m.sync(mirror.SyncOptions{}); report.Mode != mirror.ModeFull || len(m.listed()) != want || !m.status().Shrink.Since.Equal(since) {
				t.Errorf("%+v", report)
			}
			m.sync(mirror.SyncOptions{AcceptShrink: true})
			if s := m.status(); len(m.listed()) != tt.now+2 || s.Shrink != nil {
				t.Errorf("%d are listed: %+v", len(m.listed()), s)
			}
		})
	}
}

// A full crawl counts flags anew, so that wrong counts after a crash do not last.
func TestFlagsAreCountedAnew(t *testing.T) {
	m := newFixture(t)
	m.upstream.Fill(12)
	m.sync(mirror.SyncOptions{})
	row := m.entry("com.example/server-000003", "1.0.0")
	row.Flags = []string{mirror.FlagChanged} // not counted in the progress
	writer, err := m.catalogue.OpenWriter(t.Context(), "a process that was killed")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(writer.Commit(t.Context(), []catalogue.Entry{row}, nil), writer.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
	m.upstream.Remove("com.example/server-000004", "1.0.0")
	m.sync(mirror.SyncOptions{Full: true})
	if s := m.status(); s.Changed != 0 || s.Vanished != 1 {
		t.Errorf("%d changed, %d vanished", s.Changed, s.Vanished)
	}
}

// A full crawl misses neither rows that the upstream deleted before it removed them, nor rows that it
// lists with a record that cannot be used, nor rows of a list that is unchanged.
func TestNotMissing(t *testing.T) {
	m := newFixture(t)
	m.upstream.SetETags(true)
	m.upstream.Fill(9)
	m.upstream.SetStatus("com.example/server-000001", "1.0.0", registry.StatusDeleted, "malware")
	m.sync(mirror.SyncOptions{})
	m.upstream.Remove("com.example/server-000001", "1.0.0")
	for _, n := range []int{2, 3, 4} {
		name := fmt.Sprintf("com.example/server-%06d", n)
		m.upstream.Rewrite(name, "1.0.0", fmt.Sprintf(`{"name":%q,"version":"1.0.0","description":""}`, name))
	}
	for _, unchanged := range []bool{false, true} {
		report := m.sync(mirror.SyncOptions{Full: true})
		if report.NotModified != unchanged || !report.Judged || report.Missing != 0 || m.status().Shrink != nil || len(m.listed()) != 8 {
			t.Errorf("%+v %+v", report, m.status())
		}
	}
	if e := m.entry("com.example/server-000001", "1.0.0"); e.StatusMessage != "malware" || len(e.Flags) > 0 {
		t.Errorf("%+v", e)
	}
}

// The upstream's data under the registry's own key of _meta is dropped everywhere.
func TestMetaKeyIsOurs(t *testing.T) {
	const key = "com.example.registry/catalogue"
	m := newFixture(t)
	with := func(version, meta string) string {
		return strings.TrimSuffix(registrytest.Record("com.example/notes", version), "}") + `,"_meta":{` + meta + `}}`
	}
	m.upstream.Publish(with("1.0.0", `"`+key+`":{"stars":5}`))
	m.upstream.Publish(with("2.0.0", `"org.example/kept": {"a":  1},"COM.example.registry/Catalogue":{"stars":5}`))
	m.upstream.SetMeta("com.example/notes", "1.0.0", key, map[string]int{"stars": 5})
	m.upstream.SetMeta("com.example/notes", "1.0.0", "org.example/kept", 1)
	for version, beside := range map[string]string{"3.0.0": key, "4.0.0": "com.example.registry/CATALOGUE"} { // beside the record alone
		m.upstream.Add("com.example/notes", version)
		m.upstream.SetMeta("com.example/notes", version, beside, map[string]int{"stars": 5})
		m.upstream.SetMeta("com.example/notes", version, "org.example/kept", 1)
	}
	if report := m.sync(mirror.SyncOptions{}); report.Stripped != 4 || report.Invalid != 0 {
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
	for _, version := range []string{"1.0.0", "3.0.0", "4.0.0"} {
		if e := m.entry("com.example/notes", version); string(e.Server) != registrytest.Record("com.example/notes", version) || string(e.Meta) != `{"org.example/kept":1}` {
			t.Errorf("%s %s", e.Server, e.Meta)
		}
	}
	if report := m.sync(mirror.SyncOptions{Full: true}); report.Changed != 0 || report.Updated != 0 {
		t.Errorf("%+v", report)
	}
}

// TestNumbersCountWithAllDigits: records and _meta that differ only in the last digit of a
// number are different.
func TestNumbersCountWithAllDigits(t *testing.T) {
	const name = "com.example/notes"
	for before, after := range map[string]string{
		"9007199254740992":             "9007199254740993",
		"12345678901234567890":         "12345678901234567891",
		"0.1":                          "0.1000000000000000055",
		"-1.00000000000000000001":      "-1.00000000000000000002",
		"1e400":                        "1e401",
		`[{"n":18446744073709551615}]`: `[{"n":18446744073709551616}]`,
	} {
		record := func(n string) string {
			return strings.Replace(registrytest.Record(name, "1.0.0"), "{", `{"x":`+n+`,`, 1)
		}
		m := newFixture(t)
		m.upstream.Publish(record(before))
		m.sync(mirror.SyncOptions{})
		m.upstream.Rewrite(name, "1.0.0", strings.ReplaceAll(record(before), `,"`, `, "`))
		m.later(time.Hour)
		if report := m.sync(mirror.SyncOptions{}); report.Changed != 0 {
			t.Errorf("%s is not what it is in other words", before)
		}
		m.upstream.Rewrite(name, "1.0.0", record(after))
		m.later(time.Hour)
		report := m.sync(mirror.SyncOptions{})
		if e := m.entry(name, "1.0.0"); report.Changed != 1 || string(e.Server) != record(before) || !slices.Equal(e.Flags, []string{mirror.FlagChanged}) ||
			!strings.Contains(m.logs.String(), "differs_in=x") {
			t.Errorf("%s for %s: %+v %s %q", after, before, report, e.Server, e.Flags)
		}
	}
	m := newFixture(t)
	m.upstream.Add(name, "1.0.0")
	m.upstream.SetMeta(name, "1.0.0", "com.example/rating", uint64(9007199254740992))
	m.sync(mirror.SyncOptions{})
	m.upstream.SetMeta(name, "1.0.0", "com.example/rating", uint64(9007199254740993))
	m.later(time.Hour)
	if m.sync(mirror.SyncOptions{}); !strings.Contains(string(m.entry(name, "1.0.0").Meta), "9007199254740993") {
		t.Errorf("it is said still: %s", m.entry(name, "1.0.0").Meta)
	}
}

// TestUnknownStatusIsNeverActive: a row with an unknown status is hidden and flagged, in every
// form of the list, until the upstream gives it a known one.
func TestUnknownStatusIsNeverActive(t *testing.T) {
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
			m := newFixture(t)
			m.upstream.Fill(3)
			m.sync(mirror.SyncOptions{})
			m.answering(`{"servers":[` + element + `]}`)
			m.later(time.Hour)
			m.sync(mirror.SyncOptions{})
			hidden := m.entry(name, "1.0.0")
			if slices.Contains(m.listed(), name+" 1.0.0") || hidden.Status != catalogue.StatusDeleted || !slices.Equal(hidden.Flags, []string{mirror.FlagStatus}) ||
				!strings.Contains(hidden.StatusMessage, "status") || m.status().UnknownStatus != 1 {
				t.Errorf("%v %+v", m.listed(), hidden)
			}
			m.later(time.Hour)
			m.answering(`{"servers":[{"server":` + bare + `,"_meta":{"` + registry.MetaOfficial + `":{"status":"active"}}}]}`)
			m.sync(mirror.SyncOptions{AcceptChanged: true})
			if e := m.entry(name, "1.0.0"); e.Status != "active" || len(e.Flags) > 0 || m.status().UnknownStatus != 0 || e.StatusMessage != "" {
				t.Errorf("known again: %+v", e)
			}
		})
	}
}

// TestStatusBesideWhatCannotBeRead: the status is applied even if other members beside it are
// invalid.
func TestStatusBesideWhatCannotBeRead(t *testing.T) {
	m := newFixture(t)
	m.upstream.Fill(2)
	m.sync(mirror.SyncOptions{})
	const name = "com.example/server-000001"
	m.answering(`{"servers":[{"server":{"name":"` + name + `","description":"A server.","version":"1.0.0"},"_meta":{"` +
		registry.MetaOfficial + `":{"status":"deprecated","isLatest":"yes"}}}]}`)
	m.sync(mirror.SyncOptions{})
	if e := m.entry(name, "1.0.0"); e.Status != "deprecated" || len(e.Flags) > 0 {
		t.Errorf("%+v", e)
	}
}
