package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"gatehouse.example/authz/admin"
)

// TestClientsOfOneSoftware: they are one line, with their number, the name of the latest, the last use
// of any, and a state that is active if one is and disabled only if all are. Beyond maxSoftware each
// client has a line of its own.
func TestClientsOfOneSoftware(t *testing.T) {
	t.Parallel()
	at := func(hour int) time.Time { return time.Date(2026, 1, 2, hour, 0, 0, 0, time.UTC) }
	client := func(id, software, state string, created, used int) admin.Client {
		c := admin.Client{ID: id, Software: software, State: state, Created: at(created)}
		c.ClientName = "Name " + id
		if used > 0 {
			c.LastUsed = at(used)
		}
		return c
	}
	list := func(clients ...admin.Client) []string {
		var out strings.Builder
		g := &softwareList{list: newRecordList(&out, false, "HEAD", softwareLine)}
		for _, c := range clients {
			if err := g.print(c); err != nil {
				t.Fatal(err)
			}
		}
		if err := g.end(true); err != nil {
			t.Fatal(err)
		}
		var lines []string
		for line := range strings.Lines(out.String()) {
			lines = append(lines, strings.Join(strings.Fields(line), " "))
		}
		return lines[1:]
	}
	for name, test := range map[string]struct {
		clients []admin.Client
		want    string
	}{
		"one":            {[]admin.Client{client("a", "s", "unused", 1, 0)}, `a "Name a" unused - 2026-01-02T01:00:00Z - -`},
		"the latest":     {[]admin.Client{client("a", "s", "unused", 1, 0), client("b", "s", "unused", 3, 0), client("c", "s", "unused", 2, 0)}, `3 "Name b" unused - 2026-01-02T03:00:00Z - s`},
		"the last use":   {[]admin.Client{client("a", "s", "active", 1, 9), client("b", "s", "active", 2, 5), client("c", "s", "active", 3, 7)}, `3 "Name c" active - 2026-01-02T03:00:00Z 2026-01-02T09:00:00Z s`},
		"a later use":    {[]admin.Client{client("a", "s", "active", 2, 5), client("b", "s", "active", 1, 9)}, `2 "Name a" active - 2026-01-02T02:00:00Z 2026-01-02T09:00:00Z s`},
		"one is active":  {[]admin.Client{client("a", "s", "active", 2, 5), client("b", "s", "unused", 1, 0), client("c", "s", "disabled", 1, 0)}, `3 "Name a" active - 2026-01-02T02:00:00Z 2026-01-02T05:00:00Z s`},
		"the last is":    {[]admin.Client{client("a", "s", "unused", 2, 0), client("b", "s", "active", 1, 5)}, `2 "Name a" active - 2026-01-02T02:00:00Z 2026-01-02T05:00:00Z s`},
		"not all locked": {[]admin.Client{client("a", "s", "disabled", 2, 0), client("b", "s", "unused", 1, 0)}, `2 "Name a" unused - 2026-01-02T02:00:00Z - s`},
		"nor the first":  {[]admin.Client{client("a", "s", "unused", 2, 0), client("b", "s", "disabled", 1, 0)}, `2 "Name a" unused - 2026-01-02T02:00:00Z - s`},
		"all locked":     {[]admin.Client{client("a", "s", "disabled", 2, 0), client("b", "s", "disabled", 1, 0)}, `2 "Name a" disabled - 2026-01-02T02:00:00Z - s`},
	} {
		if got := list(test.clients...); len(got) != 1 || got[0] != test.want {
			t.Errorf("%s:\n got %q\nwant %q", name, got, test.want)
		}
	}
	if got := list(client("a", "", "unused", 1, 0), client("b", "", "unused", 1, 0), client("c", "s", "unused", 1, 0), client("d", "z", "unused", 1, 0)); len(got) != 4 {
		t.Errorf("clients of no software and of two others: %q", got)
	}
	var many []admin.Client
	for i := range maxSoftware {
		many = append(many, client(fmt.Sprint("c", i), fmt.Sprint("s", i), "unused", 1, 0))
	}
	many = append(many, client("x", "new", "unused", 1, 0), client("y", "new", "unused", 1, 0), client("z", "s0", "unused", 1, 0))
	if got := list(many...); len(got) != maxSoftware+2 {
		t.Errorf("beyond the limit: %d lines", len(got))
	}
}
