// Package direct writes pages of html/template without its interpreter.
//
// html/template decides once how each value is escaped, by the place where it stands. [New] reads that
// decision from the page, and [Page.Execute] carries it out: it finds fields once for each type, calls
// functions without reflection, and writes a value that needs no escaping as it is. It escapes nothing
// itself: a value with a character that could need it goes through html/template, at a place of the same
// kind. What the package does not know is an error, and the caller executes the page of html/template.
package direct

import (
	"bytes"
	"errors"
	"html/template"
	"io"
	"reflect"
	"text/template/parse"
)

// ErrUnknown means that a page or a value has something that the package does not know.
var ErrUnknown = errors.New("direct: not known here")

// Page is a page that can be written. It is safe for concurrent use.
type Page struct{ root *section }

// New returns a page that writes what page writes. Its functions are those with which it was parsed; of
// them the package knows those of the types in [functionOf]. The error is that of the page, or
// [ErrUnknown].
func New(page *template.Template, functions template.FuncMap) (*Page, error) {
	// The first execution escapes the page, whatever comes of it.
	var broken *template.Error
	if err := page.Execute(io.Discard, nil); errors.As(err, &broken) {
		return nil, err
	}
	c := &compiler{page: page, functions: functions, sections: map[string]*section{}}
	root := c.section(page.Name())
	if c.unknown {
		return nil, ErrUnknown
	}
	return &Page{root}, nil
}

// Execute appends the page with data to a buffer. After an error there is a part of it.
func (p *Page) Execute(w *bytes.Buffer, data any) error {
	return p.root.execute(w, reflect.ValueOf(data))
}

// section is a template of a page.
type section struct {
	steps []step
	slots int // how many variables it has at most
}

// step writes a part of a section.
type step func(f *frame) error

// frame is one execution of a section.
type frame struct {
	w         *bytes.Buffer
	data, dot reflect.Value // $ and .
	variables []reflect.Value
}

func (s *section) execute(w *bytes.Buffer, data reflect.Value) error {
	f := &frame{w: w, data: data, dot: data}
	if s.slots > 0 {
		f.variables = make([]reflect.Value, s.slots)
	}
	return f.run(s.steps)
}

func (f *frame) run(steps []step) error {
	for _, s := range steps {
		if err := s(f); err != nil {
			return err
		}
	}
	return nil
}

// with runs steps with another dot.
func (f *frame) with(dot reflect.Value, steps []step) error {
	before := f.dot
	f.dot = dot
	err := f.run(steps)
	f.dot = before
	return err
}

// compiler makes a Page. unknown is set when something of the page is not known.
type compiler struct {
	page      *template.Template
	functions template.FuncMap
	sections  map[string]*section
	scope     []string // the variables that are declared, by their places
	slots     int
	unknown   bool
}

// section returns the template with a name.
func (c *compiler) section(name string) *section {
	if s, ok := c.sections[name]; ok {
		return s
	}
	s := &section{}
	c.sections[name] = s
	t := c.page.Lookup(name)
	if t == nil || t.Tree == nil || t.Tree.Root == nil {
		c.unknown = true
		return s
	}
	scope, slots := c.scope, c.slots
	c.scope, c.slots = nil, 0
	s.steps = c.list(t.Tree.Root)
	s.slots = c.slots
	c.scope, c.slots = scope, slots
	return s
}

// declare returns the place of a new variable.
func (c *compiler) declare(name string) int {
	c.scope = append(c.scope, name)
	c.slots = max(c.slots, len(c.scope))
	return len(c.scope) - 1
}

// inner compiles lists whose variables end with them.
func (c *compiler) inner(l *parse.ListNode) []step {
	outer := len(c.scope)
	steps := c.list(l)
	c.scope = c.scope[:outer]
	return steps
}

func (c *compiler) list(l *parse.ListNode) (steps []step) {
	if l == nil {
		return nil
	}
	for _, node := range l.Nodes {
		if s := c.node(node); s != nil {
			steps = append(steps, s)
		}
	}
	return steps
}

// node returns the step of a node, nil for one that writes nothing.
func (c *compiler) node(node parse.Node) step {
	outer := len(c.scope)
	switch n := node.(type) {
	case *parse.TextNode:
		return func(f *frame) error { f.w.Write(n.Text); return nil }
	case *parse.ActionNode:
		return c.action(n.Pipe)
	case *parse.TemplateNode:
		return c.template(n)
	case *parse.CommentNode:
		return nil
	case *parse.IfNode:
		defer func() { c.scope = c.scope[:outer] }()
		return c.condition(&n.BranchNode, false)
	case *parse.WithNode:
		defer func() { c.scope = c.scope[:outer] }()
		return c.condition(&n.BranchNode, true)
	case *parse.RangeNode:
		defer func() { c.scope = c.scope[:outer] }()
		return c.loop(&n.BranchNode)
	}
	c.unknown = true
	return nil
}

// action writes a value as html/template has decided, or declares a variable.
func (c *compiler) action(p *parse.PipeNode) step {
	if len(p.Decl) > 0 {
		v, slot := c.single(p), c.declare(p.Decl[0].Ident[0])
		c.unknown = c.unknown || len(p.Decl) > 1 || p.IsAssign
		return func(f *frame) (err error) {
			f.variables[slot], err = v(f)
			return err
		}
	}
	write := placeOf(p)
	if write == nil {
		c.unknown = true // above all a value that is not escaped
		return nil
	}
	v := c.command(p.Cmds[0])
	return func(f *frame) error {
		value, err := v(f)
		if err != nil {
			return err
		}
		return write.value(f.w, value)
	}
}

func (c *compiler) template(n *parse.TemplateNode) step {
	s := c.section(n.Name)
	if n.Pipe == nil {
		return func(f *frame) error { return s.execute(f.w, reflect.Value{}) }
	}
	v := c.single(n.Pipe)
	return func(f *frame) error {
		dot, err := v(f)
		if err != nil {
			return err
		}
		return s.execute(f.w, dot)
	}
}

// condition is if or, with the value as dot, with.
func (c *compiler) condition(n *parse.BranchNode, dot bool) step {
	c.unknown = c.unknown || len(n.Pipe.Decl) > 0
	v, then, otherwise := c.single(n.Pipe), c.inner(n.List), c.inner(n.ElseList)
	return func(f *frame) error {
		value, err := v(f)
		if err != nil {
			return err
		}
		switch holds, err := truth(value); {
		case err != nil:
			return err
		case !holds:
			return f.run(otherwise)
		case dot:
			return f.with(value, then)
		}
		return f.run(then)
	}
}

// loop is range over a slice.
func (c *compiler) loop(n *parse.BranchNode) step {
	v := c.single(n.Pipe)
	var places []int
	for _, d := range n.Pipe.Decl {
		places = append(places, c.declare(d.Ident[0]))
	}
	each, otherwise := c.inner(n.List), c.inner(n.ElseList)
	return func(f *frame) error {
		list, err := v(f)
		if err != nil {
			return err
		}
		if list = inside(list); list.Kind() != reflect.Slice {
			return ErrUnknown
		}
		if list.Len() == 0 {
			return f.run(otherwise)
		}
		for i := range list.Len() {
			f.declareElement(places, i, list.Index(i))
			if err := f.with(list.Index(i), each); err != nil {
				return err
			}
		}
		return nil
	}
}

// declareElement sets the variables of a range: that of the element, or those of index and element.
func (f *frame) declareElement(places []int, i int, element reflect.Value) {
	switch len(places) {
	case 1:
		f.variables[places[0]] = element
	case 2:
		f.variables[places[0]], f.variables[places[1]] = reflect.ValueOf(i), element
	}
}
