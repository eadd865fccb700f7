package doctor_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"

	"gatehouse.example/doctor"
)

// ill returns the report about servers with faults of each severity, at a URL with letters that a
// URI does not have.
func ill(t *testing.T) *doctor.Report {
	s := healthy("https://notes.example.com/d\u00e9j\u00e0", issuer)
	s.challenge = "Bearer"
	s.resource["resource"] = "https://notes.example.com/]]>\x00\ufffe\x1b<b>&"
	s.server["code_challenge_methods_supported"] = []string{"plain"}
	delete(s.server, "client_id_metadata_document_supported")
	report := examined(t, s)
	for _, severity := range []doctor.Severity{doctor.Error, doctor.Warning, doctor.Note} {
		if !slices.ContainsFunc(report.Findings, func(f doctor.Finding) bool { return f.Severity == severity }) {
			t.Fatalf("no %s in %v", severity, report.Findings)
		}
	}
	return report
}

// members lists what each object of the formats has: those with a star may be missing.
var members = map[string]string{
	"sarif":            "$schema runs version",
	"runs":             "results tool",
	"tool":             "driver",
	"driver":           "name rules",
	"rules":            "fullDescription help id",
	"fullDescription":  "text",
	"help":             "text",
	"results":          "level locations message ruleId",
	"message":          "text",
	"locations":        "physicalLocation",
	"physicalLocation": "artifactLocation",
	"artifactLocation": "uri",
	"report":           "as findings target",
	"findings":         "clients id mend rule saw severity",
	"as":               "asks* basis client dated finding* open* sees* steps stops* version",
	"steps":            "name ok open*",
}

// expectMembers walks a document and compares each object with its members.
func expectMembers(t *testing.T, name string, value any) {
	t.Helper()
	switch v := value.(type) {
	case []any:
		for _, one := range v {
			expectMembers(t, name, one)
		}
	case map[string]any:
		want := strings.Fields(members[name])
		for _, key := range want {
			if _, there := v[strings.TrimSuffix(key, "*")]; !there && !strings.HasSuffix(key, "*") {
				t.Errorf("%s has no %s", name, key)
			}
		}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if !slices.Contains(want, key) && !slices.Contains(want, key+"*") {
				t.Errorf("%s has %s", name, key)
			}
			expectMembers(t, key, v[key])
		}
	case nil:
		t.Errorf("%s is null", name)
	}
}

// TestSchemas: JSON has the members of the contract, and SARIF those of its schema: every level is
// one of the schema, every result is of a rule, and the place is a URI.
func TestSchemas(t *testing.T) {
	report := ill(t)
	raw, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	for name, raw := range map[string][]byte{"report": raw, "sarif": report.SARIF()} {
		var document any
		if err := json.Unmarshal(raw, &document); err != nil {
			t.Fatal(err)
		}
		expectMembers(t, name, document)
	}
	var sarif struct {
		Runs []struct {
			Tool struct {
				Driver struct{ Rules []struct{ ID string } }
			}
			Results []struct {
				RuleID, Level string
				Locations     []struct {
					PhysicalLocation struct{ ArtifactLocation struct{ URI string } }
				}
			}
		}
	}
	if err := json.Unmarshal(report.SARIF(), &sarif); err != nil {
		t.Fatal(err)
	}
	run, ids := sarif.Runs[0], map[string]bool{}
	for _, rule := range run.Tool.Driver.Rules {
		ids[rule.ID] = true
	}
	if len(ids) != len(run.Tool.Driver.Rules) || len(run.Results) != len(report.Findings) {
		t.Errorf("%d rules of %d names, %d results of %d findings", len(run.Tool.Driver.Rules), len(ids), len(run.Results), len(report.Findings))
	}
	for _, result := range run.Results {
		at := result.Locations[0].PhysicalLocation.ArtifactLocation.URI
		u, err := url.Parse(at)
		if err != nil || u.String() != at || strings.ContainsFunc(at, func(r rune) bool { return r > '~' || r <= ' ' }) {
			t.Errorf("the place is %q", at)
		}
		if !ids[result.RuleID] || !slices.Contains([]string{"error", "warning", "note"}, result.Level) {
			t.Errorf("%+v", result)
		}
	}
}

// TestJUnit: the XML is well formed, and has as many cases and failures as it says; each error is in
// it, and each warning and note.
func TestJUnit(t *testing.T) {
	report := ill(t)
	decoder := xml.NewDecoder(bytes.NewReader(report.JUnit()))
	count, order := map[string]int{}, []string{}
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if start, ok := token.(xml.StartElement); ok {
			count[start.Name.Local]++
			order = append(order, start.Name.Local)
		}
	}
	var suite struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
		Cases    []struct {
			Name    string `xml:"name,attr"`
			Class   string `xml:"classname,attr"`
			Failure string `xml:"failure"`
			Out     string `xml:"system-out"`
		} `xml:"testcase"`
	}
	if err := xml.Unmarshal(report.JUnit(), &suite); err != nil {
		t.Fatal(err)
	}
	if order[0] != "testsuite" || len(count) != 4 || count["testcase"] != suite.Tests || count["failure"] != suite.Failures || suite.Failures == 0 {
		t.Errorf("%v, says %d tests and %d failures", count, suite.Tests, suite.Failures)
	}
	texts := map[string]string{}
	for _, c := range suite.Cases {
		if c.Class != "doctor" {
			t.Errorf("%+v", c)
		}
		texts[c.Name] = c.Failure + c.Out
	}
	for _, f := range report.Findings {
		if !strings.Contains(texts[f.ID], f.Saw) || f.Severity != doctor.Error && !strings.Contains(texts[f.ID], string(f.Severity)+": ") {
			t.Errorf("%s: %q", f.ID, texts[f.ID])
		}
	}
}
