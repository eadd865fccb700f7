package registry_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"gatehouse.example/registry"
	"gatehouse.example/registry/registrytest"
)

// TestC4NumbersCountWithAllDigits: a record in which only the last digit of a number is
// another one is another record, and so is what a registry says about it.
func TestC4NumbersCountWithAllDigits(t *testing.T) {
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
		m := newMirror(t)
		m.upstream.Publish(record(before))
		m.sync(registry.Order{})
		m.upstream.Rewrite(name, "1.0.0", strings.ReplaceAll(record(before), `,"`, `, "`))
		m.later(time.Hour)
		if report := m.sync(registry.Order{}); report.Changed != 0 {
			t.Errorf("%s is not what it is in other words", before)
		}
		m.upstream.Rewrite(name, "1.0.0", record(after))
		m.later(time.Hour)
		report := m.sync(registry.Order{})
		if e := m.entry(name, "1.0.0"); report.Changed != 1 || string(e.Server) != record(before) || !slices.Equal(e.Flags, []string{registry.FlagChanged}) ||
			!strings.Contains(m.logs.String(), "differs_in=x") {
			t.Errorf("%s for %s: %+v %s %q", after, before, report, e.Server, e.Flags)
		}
	}
	m := newMirror(t)
	m.upstream.Add(name, "1.0.0")
	m.upstream.SetMeta(name, "1.0.0", "com.example/rating", uint64(9007199254740992))
	m.sync(registry.Order{})
	m.upstream.SetMeta(name, "1.0.0", "com.example/rating", uint64(9007199254740993))
	m.later(time.Hour)
	if m.sync(registry.Order{}); !strings.Contains(string(m.entry(name, "1.0.0").Meta), "9007199254740993") {
		t.Errorf("it is said still: %s", m.entry(name, "1.0.0").Meta)
	}
}

// TestC4OwnNameListedOnce: one record of the upstream under a name of ours, good or not, in
// updates or in everything, is enough to flag ours.
func TestC4OwnNameListedOnce(t *testing.T) {
	const name = "com.example/server-000003"
	good := registrytest.Record(name, "7.0.0")
	for what, record := range map[string]string{
		"a good one":         good,
		"the same version":   registrytest.Record(name, "1.0.0"),
		"one that is broken": strings.Replace(good, `"description"`, `"undescribed"`, 1),
	} {
		for _, order := range []registry.Order{{}, {Full: true}} {
			m := newMirror(t)
			m.upstream.Fill(2)
			own := ownItems(t, registry.OwnServer{Name: name, URL: "https://notes.example.com/mcp"})
			m.restart(func(c *registry.AggregatorConfig) { c.Own = func() []registry.Item { return own } })
			m.sync(registry.Order{})
			if flaggedConflict(m, name) || m.status().Conflicts != 0 {
				t.Fatal("a conflict with nobody")
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
