package schema

import (
	"context"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// meter counts the work of one validation. The library has no means to end one, so that the
// meter panics with what it found, and run takes that up.
type meter struct {
	ctx   context.Context
	left  int
	calls int
}

// spent is what the meter panics with.
type spent struct{ err error }

// checkEvery is how many charges pass between two looks at the context.
const checkEvery = 64

func (m *meter) charge(steps int) {
	m.left -= steps
	if steps < 0 || m.left < 0 { // a sum may be larger than an int of 32 bits
		panic(spent{ErrTooMuch})
	}
	if m.calls++; m.calls%checkEvery == 0 {
		if err := m.ctx.Err(); err != nil {
			panic(spent{err})
		}
	}
}

// cost is what applying a schema to a value costs before its subschemas count themselves. A
// subschema that fails at once, at its type or its enum, does not: it is paid for here.
type cost struct {
	fixed  int // per value
	each   int // per member or element
	unique bool
}

// metered returns what the library calls between the cheap keywords of a schema and all
// others. It takes the place of the format, which is an annotation.
func metered(m *meter, c cost) *jsonschema.Format {
	return &jsonschema.Format{Name: "metered", Validate: func(v any) error {
		m.charge(c.of(v))
		return nil
	}}
}

func (c cost) of(v any) int {
	switch v := v.(type) {
	case string:
		return c.fixed + len(v)/1024
	case map[string]any:
		return c.fixed + len(v)*c.each + len(v)/8
	case []any:
		n := c.fixed + len(v)*c.each + len(v)/8
		if c.unique {
			n += uniqueCost(v)
		}
		return n
	}
	return c.fixed
}

// uniqueCost is what it costs to find out whether elements are unique. Strings and numbers
// are found by their hash; arrays and objects can be made to have the same.
func uniqueCost(elements []any) int {
	nodes, nested := 0, 0
	for _, element := range elements {
		n := countNodes(element)
		nodes += n
		if n > 1 {
			nested++
		}
	}
	return nodes/4 + nested*nested/32
}

func countNodes(v any) int {
	n := 1
	switch v := v.(type) {
	case map[string]any:
		for _, member := range v {
			n += countNodes(member)
		}
	case []any:
		for _, element := range v {
			n += countNodes(element)
		}
	}
	return n
}

// costOf adds up what the subschemas of a schema cost when they fail at once, and with
// tracking also what it costs to know which members and elements were evaluated.
func costOf(s *jsonschema.Schema, tracking bool) cost {
	c := cost{fixed: 1 + (len(s.Required)+len(s.DependentRequired)+len(s.Dependencies))/8, unique: s.UniqueItems}
	for sub := range inPlace(s) {
		c.fixed += entry(sub)
	}
	if tracking {
		c.each += 1 + c.fixed/4
	}
	for sub, alone := range inside(s) {
		if alone {
			c.each = max(c.each, entry(sub))
		} else {
			c.each += entry(sub)
		}
	}
	return c
}

// entry is what the cheap keywords of a schema cost.
func entry(s *jsonschema.Schema) int {
	n := 8
	if s.Const != nil {
		n += countNodes(*s.Const)
	}
	if s.Enum != nil {
		n += countNodes(s.Enum.Values)
	}
	return n / 8
}
