package doctor_test

import (
	"slices"
	"strings"
	"testing"

	"gatehouse.example/doctor"
)

// TestWays expects that every client comes to the sign-in at healthy servers, and that each
// client that stops at an animal is named by the finding at which it stops.
func TestWays(t *testing.T) {
	for _, way := range examined(t, healthy(notes, issuer)).As {
		if way.Stops != "" || len(way.Steps) != 10 {
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
			f := found(report, way.Finding)
			if f == nil || f.Severity != doctor.Error && f.ID != "no-registration" || !slices.Contains(f.Clients, way.Client) {
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
