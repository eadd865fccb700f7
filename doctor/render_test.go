package doctor_test

import (
	"encoding/json"
	"encoding/xml"
	"strings"
	"testing"

	"gatehouse.example/doctor"
)

// TestFormats writes one report in each format. No text of a server reaches a terminal as a
// command.
func TestFormats(t *testing.T) {
	s := healthy(notes, issuer)
	s.resource["resource"] = "https://notes.example.com/\x1b]0;title\x07<b>&\u202e"
	report := examined(t, s)
	var plain, colour strings.Builder
	if err := report.WriteText(&plain, false); err != nil {
		t.Fatal(err)
	}
	if err := report.WriteText(&colour, true); err != nil {
		t.Fatal(err)
	}
	if text := plain.String(); strings.ContainsAny(text, "\x1b\x07\u202e") || !strings.Contains(text, "error resource-not-a-url") ||
		!strings.Contains(text, "errors: 1, warnings: 0, notes: 0") {
		t.Errorf("text:\n%s", text)
	}
	if n := strings.Count(plain.String(), "\n  stops: "); n != 1 {
		t.Errorf("%d lines of clients:\n%s", n, plain.String())
	}
	if strings.Count(colour.String(), "\x1b") != 2 || strings.Contains(colour.String(), "\x07") {
		t.Errorf("colour:\n%q", colour.String())
	}
	var sarif struct {
		Version string
		Runs    []struct {
			Tool struct {
				Driver struct{ Rules []struct{ ID string } }
			}
			Results []struct{ RuleID, Level string }
		}
	}
	if err := json.Unmarshal(report.SARIF(), &sarif); err != nil || sarif.Version != "2.1.0" || len(sarif.Runs[0].Results) != 1 ||
		sarif.Runs[0].Results[0].Level != "error" || len(sarif.Runs[0].Tool.Driver.Rules) != len(doctor.Catalogue()) {
		t.Errorf("SARIF: %v, %+v", err, sarif.Runs[0].Results)
	}
	var junit struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
	}
	if err := xml.Unmarshal(report.JUnit(), &junit); err != nil || junit.Tests != len(doctor.Catalogue()) || junit.Failures != 1 {
		t.Errorf("JUnit: %v, %+v", err, junit)
	}
	out, err := json.Marshal(examined(t, healthy(notes, issuer)))
	if err != nil || !strings.HasPrefix(string(out), `{"target":"`+notes+`","findings":[],"as":[{"client":"claude-code",`) {
		t.Errorf("JSON of a healthy server: %s, %v", out, err)
	}
}
