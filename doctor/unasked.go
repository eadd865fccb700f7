package doctor

import "strings"

// unaskedChecks tell what there was no room for.
var unaskedChecks = []check{
	{Entry{
		ID: "left-out", Severity: Note, Rule: "this project",
		Title:    "Some of the questions for an authorization server were left out",
		Symptoms: []string{"not all checks ran"},
		Mend:     "An examination has 60 requests and 30 seconds, and asks first what matters most. Nothing is wrong with the server; if it is slow, mend that first.",
	}, func(w *walk) []string {
		if len(w.unasked) == 0 {
			return nil
		}
		const most = 6
		text := strings.Join(w.unasked[:min(len(w.unasked), most)], "; ")
		if len(w.unasked) > most {
			text += "; and others"
		}
		return []string{text}
	}},
}
