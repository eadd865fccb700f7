package doctor

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
)

// WriteText writes a report for people, in English. With colour it uses the escapes of
// terminals; texts of servers have none.
func (r *Report) WriteText(w io.Writer, colour bool) error {
	out := &strings.Builder{}
	fmt.Fprintf(out, "%s\n", clean(r.Target))
	for _, f := range r.Findings {
		fmt.Fprintf(out, "\n%s %s: %s\n", paint(f.Severity, colour), f.ID, title(f.ID))
		fmt.Fprintf(out, "  saw:   %s\n  rule:  %s\n  mend:  %s\n", f.Saw, f.Rule, f.Mend)
		if len(f.Clients) > 0 {
			fmt.Fprintf(out, "  %s: %s\n", r.stops(f), strings.Join(f.Clients, ", "))
		}
	}
	for _, left := range r.Left {
		fmt.Fprintf(out, "\nleft behind: %s\n", clean(left))
	}
	writeWays(out, r.As)
	fmt.Fprintf(out, "\n%s\n", r.summary())
	_, err := io.WriteString(w, out.String())
	return err
}

func (r *Report) summary() string {
	count := map[Severity]int{}
	for _, f := range r.Findings {
		count[f.Severity]++
	}
	if len(r.Findings) == 0 {
		return "nothing found"
	}
	return fmt.Sprintf("errors: %d, warnings: %d, notes: %d", count[Error], count[Warning], count[Note])
}

func paint(s Severity, colour bool) string {
	if !colour {
		return string(s)
	}
	return map[Severity]string{Error: "\x1b[1;31m", Warning: "\x1b[33m", Note: "\x1b[36m"}[s] + string(s) + "\x1b[0m"
}

// title returns the title of a check.
func title(id string) string {
	for _, e := range Catalogue() {
		if e.ID == id {
			return e.Title
		}
	}
	return id
}

// The parts of SARIF 2.1.0 that are used, named as there (section 3).
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool struct {
			Driver struct {
				Name  string      `json:"name"`
				Rules []sarifRule `json:"rules"`
			} `json:"driver"`
		} `json:"tool"`
		Results []sarifResult `json:"results"`
	}
	sarifText struct {
		Text string `json:"text"`
	}
	sarifRule struct {
		ID   string    `json:"id"`
		Full sarifText `json:"fullDescription"`
		Help sarifText `json:"help"`
	}
	sarifResult struct {
		RuleID    string          `json:"ruleId"`
		Level     string          `json:"level"`
		Message   sarifText       `json:"message"`
		Locations []sarifLocation `json:"locations"`
	}
	sarifLocation struct {
		Physical struct {
			Artifact struct {
				URI string `json:"uri"`
			} `json:"artifactLocation"`
		} `json:"physicalLocation"`
	}
)

// SARIF returns the report in the Static Analysis Results Interchange Format 2.1.0, with every
// check as a rule.
func (r *Report) SARIF() []byte {
	run := sarifRun{Results: []sarifResult{}}
	run.Tool.Driver.Name = "authz doctor"
	for _, e := range Catalogue() {
		run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, sarifRule{e.ID, sarifText{e.Title + " (" + e.Rule + ")"}, sarifText{e.Mend}})
	}
	for _, f := range r.Findings {
		result := sarifResult{RuleID: f.ID, Level: string(f.Severity), Message: sarifText{title(f.ID) + ": " + f.Saw}, Locations: make([]sarifLocation, 1)}
		result.Locations[0].Physical.Artifact.URI = ascii(r.Target)
		run.Results = append(run.Results, result)
	}
	return marshal(sarifLog{"https://json.schemastore.org/sarif-2.1.0.json", "2.1.0", []sarifRun{run}})
}

// The parts of the XML of JUnit that are used.
type (
	junitSuite struct {
		XMLName  xml.Name    `xml:"testsuite"`
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Class   string        `xml:"classname,attr"`
		Name    string        `xml:"name,attr"`
		Failure *junitFailure `xml:"failure,omitempty"`
		Out     string        `xml:"system-out,omitempty"`
	}
	junitFailure struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
)

// JUnit returns the report as a test suite with one case for each check. Errors are failures;
// warnings and notes are output of their cases.
func (r *Report) JUnit() []byte {
	suite := junitSuite{Name: clean(r.Target)}
	for _, e := range Catalogue() {
		c := junitCase{Class: "doctor", Name: e.ID}
		for _, f := range r.Findings {
			switch {
			case f.ID != e.ID:
			case f.Severity == Error && c.Failure == nil:
				c.Failure = &junitFailure{e.Title, f.Saw + "\n" + f.Mend}
				suite.Failures++
			default:
				c.Out += string(f.Severity) + ": " + f.Saw + "\n"
			}
		}
		suite.Cases = append(suite.Cases, c)
	}
	suite.Tests = len(suite.Cases)
	out, err := xml.MarshalIndent(suite, "", "  ")
	if err != nil {
		panic(err)
	}
	return append([]byte(xml.Header), out...)
}
