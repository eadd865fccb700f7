package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kong"

	"gatehouse.example/cmd/authz/internal/manual"
)

// completeVerb prints the completion of a shell, made of the grammar.
type completeVerb struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"The shell: bash, zsh or fish."`
}

// Run prints the script.
func (v *completeVerb) Run(p *program, k *kong.Context) error {
	script, ok := manual.Completion(k.Model, v.Shell)
	if !ok {
		return usageError{fmt.Errorf("there is no completion for %s: the shells are %s", v.Shell, strings.Join(manual.Shells, ", "))}
	}
	_, err := io.WriteString(p.stdout, script)
	return err
}

// manualVerb prints the page for man, made of the grammar.
type manualVerb struct{}

// Run prints the page.
func (manualVerb) Run(p *program, k *kong.Context) error {
	r := thisRelease()
	date, _, _ := strings.Cut(r.Committed, "T")
	_, err := io.WriteString(p.stdout, manual.Page(k.Model, manual.About{Version: r.Version, Date: date, Sections: manualSections}))
	return err
}

// manualSections are the parts of the page that the grammar does not have.
var manualSections = []manual.Section{
	{Title: "ENVIRONMENT", Paragraphs: []manual.Paragraph{
		{Text: "Each flag --some-name of serve, gateway and registry is also the variable AUTHZ_SOME_NAME and the key some-name of the YAML file. " +
			"A flag beats the environment, the environment beats the file, the file beats the default. Secrets may stand in a file that AUTHZ_SOME_NAME_FILE names."},
	}},
	{Title: "EXIT STATUS", Paragraphs: []manual.Paragraph{
		{Term: "0", Text: "The request was carried out."},
		{Term: "1", Text: "It was refused, or failed."},
		{Term: "2", Text: "The command line is wrong."},
	}},
	{Title: "FILES", Paragraphs: []manual.Paragraph{
		{Term: "/etc/gatehouse/gatehouse.yaml", Text: "The settings of the service that packages install."},
		{Term: "/etc/gatehouse/master-keys", Text: "Its master key. Without it nobody can open the store: keep a copy elsewhere."},
		{Term: "/var/lib/gatehouse", Text: "The folder of its store."},
	}},
	{Title: "SEE ALSO", Paragraphs: []manual.Paragraph{{Text: "systemctl(1), journalctl(1)"}}},
}
