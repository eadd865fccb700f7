package house

import "fmt"

// The limits of size. Product code is what [House.Product] returns, without test files.
const (
	// MaxComplexity is for each function of product code, as [Complexity] counts.
	MaxComplexity = 12
	// MaxProductLines and MaxTestLines are for files.
	MaxProductLines, MaxTestLines = 300, 450
)

// Excess is a file or a function that is above a limit.
type Excess struct {
	// Place is the file and the line, What describes the excess.
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
		found = append(found, Excess{f.Name + ":1", fmt.Sprintf("%d lines, at most %d", f.Lines, limit)})
	}
	for _, function := range f.Functions {
		if product && function.Complexity > MaxComplexity {
			found = append(found, Excess{
				fmt.Sprintf("%s:%d", f.Name, function.Line),
				fmt.Sprintf("%s has the complexity %d, at most %d", function.Name, function.Complexity, MaxComplexity),
			})
		}
	}
	return found
}
