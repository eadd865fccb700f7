package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/term"

	"gatehouse.example/doctor"
)

// doctorVerb says why clients cannot connect to a server.
type doctorVerb struct {
	URL       string   `arg:"" optional:"" help:"The URL of the protected server, as clients are given it."`
	Server    string   `placeholder:"ISSUER" help:"Examine an authorization server alone."`
	As        string   `placeholder:"CLIENT" help:"Play one client only: claude-code, codex, vscode, cursor, gemini-cli, inspector, mcp-remote, go-sdk or typescript-sdk."`
	AllowHost []string `placeholder:"HOST" help:"A host that may be asked although the rule for addresses forbids it; repeatable."`
	doctorSignIn
	JSON  bool `name:"json" xor:"format" help:"Print the report as JSON."`
	SARIF bool `name:"sarif" xor:"format" help:"Print the report as SARIF 2.1.0."`
	JUnit bool `name:"junit" xor:"format" help:"Print the report as JUnit XML."`
	List  bool `help:"Print every check with its source, and ask nothing."`
}

// errDoctor says that the report has an error.
var errDoctor = errors.New("there are errors")

// Run prints the report. It fails if there is an error among the findings.
func (v *doctorVerb) Run(ctx context.Context, p *program) error {
	if v.List {
		return v.list(p)
	}
	if (v.URL == "") == (v.Server == "") {
		return usageError{errors.New("give the URL of a server, or --server ISSUER")}
	}
	if v.As != "" && !slices.Contains(doctor.Clients(), v.As) {
		return usageError{fmt.Errorf("--as takes one of %s", strings.Join(doctor.Clients(), ", "))}
	}
	if v.As != "" && v.Server != "" {
		return usageError{errors.New("--as plays a client at a protected server: give its URL, without --server")}
	}
	report, err := v.examine(ctx, p)
	if err != nil {
		return usageError{err}
	}
	if v.As != "" {
		if report, err = report.Only(v.As); err != nil {
			return usageError{err}
		}
	}
	if err := v.print(p, report); err != nil {
		return err
	}
	if report.Worst() == doctor.Error {
		return errDoctor
	}
	return nil
}

func (v *doctorVerb) examine(ctx context.Context, p *program) (*doctor.Report, error) {
	with, err := v.doctorSignIn.options(p, v.Server != "")
	if err != nil {
		return nil, err
	}
	o := doctor.Options{AllowHosts: v.AllowHost, SignIn: with}
	if terminal(p.stderr) {
		o.Progress = func(method, url string) { fmt.Fprintf(p.stderr, "\r\x1b[K%s %s", method, doctor.Clean(url)) }
		defer fmt.Fprint(p.stderr, "\r\x1b[K")
	}
	if v.Server != "" {
		return doctor.CheckServer(ctx, v.Server, o)
	}
	return doctor.Check(ctx, v.URL, o)
}

func (v *doctorVerb) print(p *program, report *doctor.Report) error {
	switch {
	case v.JSON:
		out := json.NewEncoder(p.stdout)
		out.SetIndent("", "  ")
		out.SetEscapeHTML(false)
		return out.Encode(report)
	case v.SARIF:
		_, err := fmt.Fprintf(p.stdout, "%s\n", report.SARIF())
		return err
	case v.JUnit:
		_, err := fmt.Fprintf(p.stdout, "%s\n", report.JUnit())
		return err
	}
	return report.WriteText(p.stdout, terminal(p.stdout) && os.Getenv("NO_COLOR") == "")
}

// list prints every check.
func (v *doctorVerb) list(p *program) error {
	if v.JSON {
		type line struct {
			ID       string          `json:"id"`
			Severity doctor.Severity `json:"severity"`
			Rule     string          `json:"rule"`
			Title    string          `json:"title"`
			Mend     string          `json:"mend"`
			Clients  []string        `json:"clients"`
		}
		lines := []line{}
		for _, e := range doctor.Catalogue() {
			lines = append(lines, line{e.ID, e.Severity, e.Rule, e.Title, e.Mend, append([]string{}, e.Clients...)})
		}
		return json.NewEncoder(p.stdout).Encode(lines)
	}
	for _, e := range doctor.Catalogue() {
		stops := cmp.Or(strings.Join(e.Clients, ", "), "nobody")
		if _, err := fmt.Fprintf(p.stdout, "%-8s %-32s %s\n         %s (stops %s)\n", e.Severity, e.ID, e.Title, e.Rule, stops); err != nil {
			return err
		}
	}
	return nil
}

// terminal reports whether a stream is a terminal.
func terminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}
