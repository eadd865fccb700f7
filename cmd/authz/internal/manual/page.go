package manual

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kong"
)

// About is what the page says beside the verbs.
type About struct {
	Version  string // at the foot of the page
	Date     string // of the version, such as 2026-11-23; may be empty
	Sections []Section
}

// Section is a heading in capitals, and paragraphs. A paragraph with Term is an item of a list.
type Section struct {
	Title      string
	Paragraphs []Paragraph
}

// Paragraph is a text, below the term that it explains if that is not empty.
type Paragraph struct{ Term, Text string }

// Page returns the page of section 1 for man, in the language of man(7): every verb that is not
// hidden with its arguments and flags, and the sections of about.
func Page(app *kong.Application, about About) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %s 1 %s %s\n", quoted(strings.ToUpper(app.Name)), quoted(about.Date), quoted(app.Name+" "+about.Version))
	// No hyphens in names that are copied, and no spaces drawn out.
	b.WriteString(".nh\n.ad l\n.SH NAME\n")
	fmt.Fprintf(&b, "%s \\- %s\n", roff(app.Name), roff(strings.TrimSuffix(app.Help, ".")))
	b.WriteString(".SH SYNOPSIS\n")
	all := verbs(app)
	for _, v := range all[1:] {
		if len(v.children) == 0 {
			synopsis(&b, app.Name, v)
		}
	}
	b.WriteString(".SH COMMANDS\n")
	for _, v := range all[1:] {
		command(&b, app.Name, v)
	}
	for _, s := range about.Sections {
		s.write(&b)
	}
	return b.String()
}

// synopsis writes how the verb is typed.
func synopsis(b *strings.Builder, program string, v verb) {
	fmt.Fprintf(b, ".B %s\n", roff(program+" "+v.path))
	line := []string{`[\fIflags\fR]`}
	for _, argument := range v.node.Positional {
		line = append(line, roff(argument.Summary()))
	}
	fmt.Fprintf(b, "%s\n.br\n", strings.Join(line, " "))
}

// command writes what a verb does, and its arguments and flags. A group has only the first.
func command(b *strings.Builder, program string, v verb) {
	fmt.Fprintf(b, ".SS %s\n%s\n", quoted(program+" "+v.path), roff(v.help))
	if len(v.children) > 0 {
		return
	}
	for _, argument := range v.node.Positional {
		item(b, `\fI`+roff(argument.Summary())+`\fR`, argument.Help)
	}
	for _, flag := range v.flags {
		if flag.Name == "help" {
			continue // every verb has it
		}
		term := `\fB` + roff("--"+flag.Name) + `\fR`
		if takesValue(flag) {
			term += ` \fI` + roff(flag.FormatPlaceHolder()) + `\fR`
		}
		item(b, term, flag.Help)
	}
}

// write writes the section.
func (s Section) write(b *strings.Builder) {
	fmt.Fprintf(b, ".SH %s\n", quoted(s.Title))
	for _, p := range s.Paragraphs {
		if p.Term != "" {
			item(b, `\fB`+roff(p.Term)+`\fR`, p.Text)
			continue
		}
		fmt.Fprintf(b, ".PP\n%s\n", roff(p.Text))
	}
}

// item writes a term, whose markup is made, and its text.
func item(b *strings.Builder, term, text string) {
	fmt.Fprintf(b, ".TP\n%s\n%s\n", term, roff(text))
}

// roff makes a text that shows as it is: hyphens can be searched and copied, and no line begins a
// request (man(7), groff_char(7)).
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`).Replace(strings.Join(strings.Fields(text), " "))
	if strings.HasPrefix(text, ".") {
		return `\&` + text
	}
	return text
}

// quoted is one argument of a request.
func quoted(text string) string {
	return `"` + strings.ReplaceAll(roff(text), `"`, `\(dq`) + `"`
}
