package doctor

import (
	"cmp"
	"slices"
)

// Severity says how bad a finding is.
type Severity string

// The severities.
const (
	// Error: some client cannot connect, or the server is unsafe.
	Error Severity = "error"
	// Warning: some client has trouble, or will have.
	Warning Severity = "warning"
	// Note: worth knowing.
	Note Severity = "note"
)

// rank orders severities, the worst first.
func (s Severity) rank() int { return slices.Index([]Severity{Error, Warning, Note}, s) }

// Report is the result of an examination.
type Report struct {
	// Target is the URL that was given.
	Target string `json:"target"`
	// Findings are ordered by severity, the worst first, and then as in [Catalogue]. They are
	// never nil, so that JSON has an array.
	Findings []Finding `json:"findings"`
	// As tells for each client how far it comes.
	As []Way `json:"as,omitempty"`
	// Left lists what a sign-in registered and was granted, and could not be removed.
	Left []string `json:"left,omitempty"`
}

// Finding is one fault of a server.
type Finding struct {
	// ID is the stable name of the check. docs/doctor.md has a section for each.
	ID       string   `json:"id"`
	Severity Severity `json:"severity"`
	// Rule is the document and the section that the server breaks.
	Rule string `json:"rule"`
	// Saw is what was seen. Texts of servers in it are cut, and have no control characters.
	Saw string `json:"saw"`
	// Mend says how to mend it.
	Mend string `json:"mend"`
	// Clients are the names of clients, in the order of [Clients]: those whose way in [Report].As
	// stops because of the fault. Of a fault that shows only after these ways, or at an authorization
	// server alone, those that it can stop.
	Clients []string `json:"clients"`
}

// Worst returns the severity of the worst finding, "" without findings.
func (r *Report) Worst() Severity {
	if len(r.Findings) == 0 {
		return ""
	}
	return r.Findings[0].Severity
}

// report runs every check over the record.
func (w *walker) report() *Report {
	r := &Report{Target: w.target, Findings: []Finding{}, Left: w.left}
	for _, c := range catalogue() {
		for _, saw := range unique(c.look(&w.walk)) {
			r.Findings = append(r.Findings, c.finding(&w.walk, saw))
		}
	}
	if !w.alone {
		r.As = w.ways()
		r.attribute()
		r.explain(&w.walk)
	}
	slices.SortStableFunc(r.Findings, func(a, b Finding) int {
		return cmp.Compare(a.Severity.rank(), b.Severity.rank())
	})
	return r
}

// finding makes the finding of a check. Clients are never nil, so that JSON has an array.
func (c check) finding(w *walk, saw string) Finding {
	mend := c.Mend
	for _, product := range products {
		if text := c.Mends[product.name]; text != "" && product.serves(w) {
			mend += " " + product.name + ": " + text
		}
	}
	return Finding{ID: c.ID, Severity: c.Severity, Rule: c.Rule, Saw: clean(saw), Mend: mend, Clients: append([]string{}, c.Clients...)}
}
