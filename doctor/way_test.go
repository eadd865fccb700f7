package doctor_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"gatehouse.example/doctor"
)

// TestOnly: the report for one client has its way, and the findings that can stop it.
func TestOnly(t *testing.T) {
	s := healthy(notes, issuer)
	s.resource["resource"] = "https://Notes.Example.com/mcp" // stops those that compare bytes
	s.server["issuer"] = issuer + "/"
	report := examined(t, s)
	for client, want := range map[string][]string{"go-sdk": {"resource-spelling"}, "vscode": {"resource-spelling"}, "codex": nil, "inspector": {"issuer-slash"}} {
		one, err := report.Only(client)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range one.Findings {
			got = append(got, f.ID)
		}
		if !slices.Equal(got, want) || one.Target != notes || len(one.As) != 1 || one.As[0].Client != client {
			t.Errorf("%s: %v, want %v; %+v", client, got, want, one.As)
		}
	}
	if _, err := report.Only("nobody"); err == nil || !strings.Contains(err.Error(), "none of claude-code, codex,") {
		t.Error(err)
	}
}

// TestWaysAreKept: where clients stop at each animal is on record, and changes only on purpose:
// go test ./doctor -run TestWaysAreKept -update.
func TestWaysAreKept(t *testing.T) {
	var out strings.Builder
	for _, a := range zoo() {
		s := healthy(notes, issuer)
		a.change(s)
		stops := map[string][]string{}
		for _, way := range examined(t, s).As {
			if way.Stops != "" {
				at := way.Stops + ": " + way.Finding
				stops[at] = append(stops[at], way.Client)
			}
		}
		for _, at := range slices.Sorted(maps.Keys(stops)) {
			fmt.Fprintf(&out, "%s | %s | %s\n", a.name, at, strings.Join(stops[at], " "))
		}
	}
	const file = "testdata/ways.txt"
	if *update {
		if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	kept, now := strings.Split(string(want), "\n"), strings.Split(out.String(), "\n")
	for _, line := range now {
		if !slices.Contains(kept, line) {
			t.Errorf("new:  %s", line)
		}
	}
	for _, line := range kept {
		if !slices.Contains(now, line) {
			t.Errorf("gone: %s", line)
		}
	}
}

// TestWays expects that every client comes to the sign-in at healthy servers, and that each
// client that stops at an animal is named by the finding at which it stops.
func TestWays(t *testing.T) {
	for _, way := range examined(t, healthy(notes, issuer)).As {
		if way.Stops != "" || len(way.Steps) != 14 {
			t.Errorf("healthy: %+v", way)
		}
	}
	for _, a := range zoo() {
		s := healthy(notes, issuer)
		a.change(s)
		report := examined(t, s)
		var names []string
		for _, way := range report.As {
			names = append(names, way.Client)
			if way.Stops == "" {
				continue
			}
			if f := found(report, way.Finding); f == nil || f.Severity != doctor.Error && f.ID != "no-registration" && f.ID != "challenge-elsewhere" {
				t.Errorf("%s: %s stops at %s, and the finding is %+v", a.name, way.Client, way.Finding, f)
			}
			if way.Sees == "" || strings.ContainsAny(way.Sees, "\n\x1b") {
				t.Errorf("%s: %s sees %q", a.name, way.Client, way.Sees)
			}
		}
		if !slices.Equal(names, doctor.Clients()) {
			t.Errorf("clients %v", names)
		}
	}
}
