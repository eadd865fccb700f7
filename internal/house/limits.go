package house

import (
	"fmt"
	"strings"
)

// The limits of size. Product code is what [House.Product] returns, without test files.
const (
	// MaxComplexity is for each function of product code, as [Complexity] counts.
	MaxComplexity = 12
	// MaxProductLines and MaxTestLines are for files.
	MaxProductLines, MaxTestLines = 300, 450
)

// Excess is a file or a function that is above a limit.
type Excess struct {
	// Name is the file, for a function followed by ":" and its name. It has no number of a line,
	// so that it stays the same while others work on the file.
	Name string
	// Place is the file and line to look at, What says what is too much.
	Place, What string
}

// Above returns what is above the limits.
func (h *House) Above() (found []Excess) {
	product := h.Product()
	for _, p := range h.Packages {
		for _, f := range p.Files {
			found = append(found, f.above(product[p.Path] && !f.Test)...)
		}
	}
	return found
}

func (f File) above(product bool) (found []Excess) {
	limit := MaxTestLines
	if product {
		limit = MaxProductLines
	}
	if f.Lines > limit {
		found = append(found, Excess{f.Name, f.Name + ":1", fmt.Sprintf("%d lines, at most %d", f.Lines, limit)})
	}
	for _, function := range f.Functions {
		if product && function.Complexity > MaxComplexity {
			found = append(found, Excess{
				f.Name + ":" + function.Name, fmt.Sprintf("%s:%d", f.Name, function.Line),
				fmt.Sprintf("%s has the complexity %d, at most %d", function.Name, function.Complexity, MaxComplexity),
			})
		}
	}
	return found
}

// Compare returns a sentence for each excess that is no exception, and for each exception
// that is above no limit. Exceptions are names of an [Excess], one in a line; lines that begin with # are
// comments.
func Compare(above []Excess, exceptions string) (faults []string) {
	excepted := map[string]bool{}
	for line := range strings.Lines(exceptions) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			excepted[line] = true
		}
	}
	for _, e := range above {
		if !excepted[e.Name] {
			faults = append(faults, e.Place+": "+e.What)
		}
		delete(excepted, e.Name)
	}
	for name := range excepted {
		faults = append(faults, name+" is above no limit any more: take it off the list of exceptions")
	}
	return faults
}
