package e2e

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gatehouse.example/doctor"
)

// signsIn is a person who signs in at our authorization server and allows everything.
func signsIn(t *testing.T) func(context.Context, string) error {
	browser := newBrowser(t)
	return func(ctx context.Context, url string) error { return comesBack(ctx, allow(t, browser, url).String()) }
}

// comesBack opens the address to which the authorization server sends the browser.
func comesBack(_ context.Context, url string) error {
	answer, err := http.Get(url)
	if err != nil {
		return err
	}
	return answer.Body.Close()
}

// examined examines a server. How fast this machine is makes no difference.
func examined(t *testing.T, target string, o doctor.Options) *doctor.Report {
	t.Helper()
	return examinedBy(t, doctor.Check, target, o)
}

// examinedAlone is like examined, for an authorization server alone.
func examinedAlone(t *testing.T, issuer string, o doctor.Options) *doctor.Report {
	t.Helper()
	return examinedBy(t, doctor.CheckServer, issuer, o)
}

func examinedBy(t *testing.T, check func(context.Context, string, doctor.Options) (*doctor.Report, error), target string, o doctor.Options) *doctor.Report {
	t.Helper()
	report, err := check(t.Context(), target, o)
	if err != nil {
		t.Fatal(err)
	}
	kept := report.Findings[:0]
	for _, f := range report.Findings {
		if f.ID != "slow" {
			kept = append(kept, f)
		}
	}
	report.Findings = kept
	return report
}

// wantHealthy expects nothing above a note, and that the sign-in left nothing.
func wantHealthy(t *testing.T, report *doctor.Report) {
	t.Helper()
	for _, f := range report.Findings {
		if f.Severity != doctor.Note {
			t.Errorf("%s: %s: %s", f.Severity, f.ID, f.Saw)
		}
	}
	if len(report.Left) > 0 {
		t.Errorf("left %q", report.Left)
	}
}

var updateDoctor = flag.Bool("doctor.update", false, "write what the doctor finds at the servers of others anew")

var address = regexp.MustCompile(`(127\.0\.0\.1|localhost):[0-9]+`)

// compareFindings compares a report with the file of that name, which was checked by hand. Addresses
// are numbered in the order in which they are named.
func compareFindings(t *testing.T, name string, report *doctor.Report) {
	t.Helper()
	var out strings.Builder
	for _, f := range report.Findings {
		fmt.Fprintf(&out, "%s %s: %s\n", f.Severity, f.ID, f.Saw)
	}
	for _, left := range report.Left {
		fmt.Fprintf(&out, "left %s\n", left)
	}
	names := map[string]string{}
	got := address.ReplaceAllStringFunc(out.String(), func(at string) string {
		if names[at] == "" {
			names[at] = fmt.Sprintf("server-%d", len(names)+1)
		}
		return names[at]
	})
	got = regexp.MustCompile(`client [A-Za-z0-9_-]{20,}`).ReplaceAllString(got, "client ID")
	got = regexp.MustCompile(`/interaction/[A-Za-z0-9_-]{20,}`).ReplaceAllString(got, "/interaction/ID")
	file := filepath.Join("testdata", "doctor", name+".txt")
	if *updateDoctor {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || got != string(want) {
		t.Errorf("%v; found\n%swant\n%s", err, got, want)
	}
}

// TestDoctorAtOurServers: the doctor finds nothing above a note at our own authorization server and
// the servers that our guard protects, also with a sign-in, and leaves nothing there.
func TestDoctorAtOurServers(t *testing.T) {
	server, demo := startPair(t)
	for name, o := range map[string]doctor.Options{"without": {}, "with": {SignIn: signsIn(t), Register: true}} {
		t.Run(name, func(t *testing.T) { wantHealthy(t, examined(t, demo.URL+"/mcp", o)) })
		t.Run(name+", alone", func(t *testing.T) { wantHealthy(t, examinedAlone(t, server.URL, o)) })
	}
}
