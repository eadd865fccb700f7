package sim

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Fault is a fault of some nodes, with its duration.
type Fault struct {
	At    time.Duration
	What  What
	Nodes []string // one, or for Cut those on one side
	For   time.Duration
}

// What is the kind of a fault.
type What string

const (
	// Stall: the node stops for a time.
	Stall What = "stall"
	// Crash: the node ends, and is started again after a time.
	Crash What = "crash"
	// Cut: the nodes reach only each other for a time.
	Cut What = "cut"
)

// String returns a line of a schedule, such as "at 3.2s stall A for 4s".
func (f Fault) String() string {
	return fmt.Sprintf("at %v %s %s for %v", f.At, f.What, strings.Join(f.Nodes, ","), f.For)
}

// Schedule is faults in the order of their beginnings.
type Schedule []Fault

// String returns a line for each fault.
func (s Schedule) String() string {
	lines := make([]string, len(s))
	for i, f := range s {
		lines[i] = f.String()
	}
	return strings.Join(lines, "\n")
}

// ParseSchedule parses the result of [Schedule.String]. Empty lines and indentation are ignored.
func ParseSchedule(text string) (Schedule, error) {
	var s Schedule
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		f, err := parseFault(words)
		if err != nil {
			return nil, fmt.Errorf("sim: %q: %w", strings.TrimSpace(line), err)
		}
		s = append(s, f)
	}
	s.Sort()
	return s, nil
}

func parseFault(words []string) (Fault, error) {
	if len(words) != 6 || words[0] != "at" || words[4] != "for" {
		return Fault{}, fmt.Errorf(`it must be like "at 3.2s stall A for 4s"`)
	}
	f := Fault{What: What(words[2]), Nodes: strings.Split(words[3], ",")}
	var err error
	if f.At, err = time.ParseDuration(words[1]); err == nil {
		f.For, err = time.ParseDuration(words[5])
	}
	if err == nil && f.What != Stall && f.What != Crash && f.What != Cut {
		err = fmt.Errorf("%q is no fault", words[2])
	}
	return f, err
}

// Sort puts the faults in order.
func (s Schedule) Sort() {
	slices.SortStableFunc(s, func(a, b Fault) int { return cmp.Compare(a.At, b.At) })
}

// End is the end of the last fault.
func (s Schedule) End() (end time.Duration) {
	for _, f := range s {
		end = max(end, f.At+f.For)
	}
	return end
}

// Run schedules the faults, beginning now.
func (w *World) Run(s Schedule) {
	defer w.enter()()
	for _, f := range s {
		w.at(w.now+f.At, func() { w.begin(f) })
		if f.What != Stall {
			w.at(w.now+f.At+f.For, func() { w.end(f) })
		}
	}
}

func (w *World) begin(f Fault) {
	w.log("--- %s", f)
	switch f.What {
	case Stall:
		w.each(f.Nodes, func(n *node) { n.stall(f.For) })
	case Crash:
		w.each(f.Nodes, (*node).crash)
	case Cut:
		for l := range w.between(f.Nodes) {
			l.cuts++
		}
	}
}

func (w *World) end(f Fault) {
	w.log("--- end of %s", f)
	switch f.What {
	case Crash:
		w.each(f.Nodes, (*node).restart)
	case Cut:
		for l := range w.between(f.Nodes) {
			w.heal(l)
		}
	}
}

func (w *World) each(names []string, do func(*node)) {
	for _, name := range names {
		do(w.must(name))
	}
}
