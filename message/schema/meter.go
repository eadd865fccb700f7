package schema

import (
	"context"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// meter counts the work of one validation. The library has no means to stop one, so the meter
// panics with a stopped value, which run recovers.
type meter struct {
	ctx   context.Context
	left  int
	calls int
}

// stopped is the value with which the meter panics.
type stopped struct{ err error }

// checkEvery is the number of charges between two checks of the context.
const checkEvery = 64

func (m *meter) charge(steps int) {
	m.left -= steps
	if steps < 0 || m.left < 0 { // a sum may be larger than an int of 32 bits
		panic(stopped{ErrTooMuch})
	}
	if m.calls++; m.calls%checkEvery == 0 {
		if err := m.ctx.Err(); err != nil {
			panic(stopped{err})
		}
	}
}

// cost is the cost of applying a schema to a value, without the cost that its subschemas count
// themselves. A subschema that fails at once, at its type or its enum, does not count itself, so
// that part is included.
type cost struct {
	fixed  int // per value
	each   int // per member or element
	unique bool
}

// metered returns the function that charges m. The library calls it as the format of a schema,
// after the cheap keywords and before all others; the real format is only an annotation.
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

// uniqueCost returns the cost of finding out whether elements are unique. Strings and numbers
// are found by their hash; arrays and objects can be crafted to have equal hashes.
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

// costOf returns the cost of a schema: the sum for subschemas that fail at once, and with
// tracking also the cost of recording which members and elements were evaluated.
func costOf(s *jsonschema.Schema, tracking bool) cost {
	c := cost{fixed: 1 + (len(s.Required)+len(s.DependentRequired)+len(s.Dependencies))/8, unique: s.UniqueItems}
	for sub := range inPlace(s) {
		c.fixed += entryCost(sub)
	}
	if tracking {
		c.each += 1 + c.fixed/4
	}
	for sub, alone := range inside(s) {
		if alone {
			c.each = max(c.each, entryCost(sub))
		} else {
			c.each += entryCost(sub)
		}
	}
	return c
}

// entryCost returns the cost of the cheap keywords of a schema.
func entryCost(s *jsonschema.Schema) int {
	n := 8
	if s.Const != nil {
		n += countNodes(*s.Const)
	}
	if s.Enum != nil {
		n += countNodes(s.Enum.Values)
	}
	return n / 8
}
