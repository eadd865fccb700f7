//go:build e2e && clients

package doctor_test

import (
	"regexp"
	"slices"
	"strings"

	"gatehouse.example/doctor"
)

// stages are how far a client came, told by what it asked for.
var stages = []string{"the server", "resource metadata", "server metadata", "registration"}

// reached returns the last stage that a client asked for. Who finds no resource metadata looks for an
// authorization server at the server itself, and registers there: that belongs to the search. What
// mcp-remote looks at before the first message decides nothing.
func reached(story []string) string {
	last := 0
	story = story[max(0, slices.IndexFunc(story, func(s string) bool { return strings.HasPrefix(s, "POST notes.example.com/mcp ") })):]
	for _, line := range story {
		at := 0
		switch {
		case strings.HasPrefix(line, "POST auth.example.org/register "):
			at = 3
		case strings.Contains(line, " auth.example.org/"):
			at = 2
		case strings.Contains(line, "/.well-known/oauth-protected-resource"):
			at = 1
		}
		last = max(last, at)
	}
	return stages[last]
}

// lastStage returns the last stage to which a way comes. A client with a document need not register.
func lastStage(way doctor.Way, documents bool) string {
	last := 0
	for _, s := range way.Steps {
		switch s.Name {
		case "resource metadata":
			if way.Finding != "challenge-elsewhere" { // at which a client ends without asking
				last = max(last, 1)
			}
		case "server metadata":
			last = max(last, 2)
		case "registration":
			if !documents && way.Finding != "no-way-in" && way.Finding != "no-registration" {
				last = max(last, 3)
			}
		}
	}
	return stages[last]
}

var control = regexp.MustCompile(`\x1b\[[0-9;?]*[A-Za-z]|\\n|\\|\s+`)

// shows reports whether a screen has the parts of what a way says, which may be broken into lines or
// be JSON in JSON. A text that is the title of a finding is nobody's: only at a server that is open is
// there nothing to see.
func shows(screen string, way doctor.Way) bool {
	if slices.ContainsFunc(doctor.Catalogue(), func(e doctor.Entry) bool { return e.Title == way.Sees }) {
		return way.Finding == "open"
	}
	plain := func(s string) string { return control.ReplaceAllString(s, "") }
	for part := range strings.SplitSeq(way.Sees, "…") {
		if !strings.Contains(plain(screen), plain(part)) {
			return false
		}
	}
	return true
}
