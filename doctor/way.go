package doctor

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Way tells how far a client comes with a server.
type Way struct {
	// Client is one of [Clients], Version the version whose way was recorded.
	Client  string `json:"client"`
	Version string `json:"version"`
	// Basis is how its way is known, and Dated the day (2026-11-24) on which it was last looked at.
	Basis Basis  `json:"basis"`
	Dated string `json:"dated"`
	// Steps are those that it would take, in their order.
	Steps []Step `json:"steps"`
	// Asks is what it asks for at the sign-in, nil if it does not come there or that is not known.
	Asks *Asks `json:"asks,omitempty"`
	// Stops is the step at which it would stop, "" if it works or comes as far as is known.
	Stops string `json:"stops,omitempty"`
	// Sees is what its user would see there.
	Sees string `json:"sees,omitempty"`
	// Finding is the ID of the finding that is the reason.
	Finding string `json:"finding,omitempty"`
	// Open is why the rest of its way is not known: something was not asked, or not answered.
	Open string `json:"open,omitempty"`

	at    string // what is said where it stops
	later string // why steps after the registration are not known
}

// stop notes where the client stops.
func (w *Way) stop(on *play, step, id string) {
	w.Stops, w.Finding, w.Sees, w.at = step, id, on.sees.at(step, id), on.at
}

// columns are the names of all steps, in the order of the table.
func columns() (names []string) {
	for _, s := range steps {
		names = append(names, s.name)
	}
	for _, s := range later {
		names = append(names, s.name)
	}
	return names
}

// Step is one step of a client.
type Step struct {
	Name string `json:"name"`
	OK   bool   `json:"ok"`
	// Open is set if it is not known whether the client goes on. OK is false then.
	Open bool `json:"open,omitempty"`
}

// writeWays writes a table with a row for each client and a column for each step.
func writeWays(out io.Writer, ways []Way) {
	if len(ways) == 0 {
		return
	}
	fmt.Fprintf(out, "\n%-15s %-10s %-7s", "client", "version", "from")
	for i := range columns() {
		fmt.Fprintf(out, " %2d", i+1)
	}
	for _, way := range ways {
		fmt.Fprintf(out, "\n%-15s %-10s %-7s", way.Client, way.Version, way.Basis)
		for _, name := range columns() {
			fmt.Fprintf(out, " %2s", way.mark(name))
		}
		if way.Stops != "" {
			fmt.Fprintf(out, "  %s: %s", way.Finding, way.Sees)
		}
	}
	for _, why := range opened(ways) {
		fmt.Fprintf(out, "\n- not known: %s", why)
	}
	fmt.Fprint(out, "\n\nsteps:")
	for i, name := range columns() {
		fmt.Fprintf(out, " %d %s%s", i+1, name, map[bool]string{true: ",", false: "\n"}[i < len(columns())-1])
	}
	if len(ways) == 1 && ways[0].Asks != nil {
		a := ways[0].Asks
		fmt.Fprintf(out, "asks for: scope %s, resource %s\n", quoted(a.Scope), quoted(a.Resource))
	}
	writeBases(out, ways)
}

// opened returns why ways are not known to their end.
func opened(ways []Way) (all []string) {
	for _, way := range ways {
		if why := cmp.Or(way.Open, way.later); why != "" {
			all = append(all, why)
		}
	}
	return unique(all)
}

// mark returns how a step ended. Not every client takes the steps in the order of the table.
func (w Way) mark(name string) string {
	at := slices.IndexFunc(w.Steps, func(s Step) bool { return s.Name == name })
	if at < 0 {
		return ""
	}
	switch s := w.Steps[at]; {
	case s.OK:
		return "ok"
	case s.Open:
		return "-"
	}
	return "X"
}

// Only returns the report for one of [Clients]: its way, and the findings that can stop it. The
// error is for a name that is none of them.
func (r *Report) Only(client string) (*Report, error) {
	if !slices.Contains(everyone, client) {
		return nil, fmt.Errorf("doctor: %s is none of %s", quoted(client), strings.Join(everyone, ", "))
	}
	one := &Report{Target: r.Target, Findings: []Finding{}, Left: r.Left}
	for _, f := range r.Findings {
		if slices.Contains(f.Clients, client) {
			one.Findings = append(one.Findings, f)
		}
	}
	for _, way := range r.As {
		if way.Client == client {
			one.As = append(one.As, way)
		}
	}
	return one, nil
}
