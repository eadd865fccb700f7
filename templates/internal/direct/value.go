package direct

import (
	"html/template"
	"reflect"
	"slices"
	"sync/atomic"
	"text/template/parse"
	"time"
)

// value evaluates an expression.
type value func(f *frame) (reflect.Value, error)

func constant(v any) value {
	of := reflect.ValueOf(v)
	return func(*frame) (reflect.Value, error) { return of, nil }
}

func unknown(*frame) (reflect.Value, error) { return reflect.Value{}, ErrUnknown }

// single compiles a pipeline of one command.
func (c *compiler) single(p *parse.PipeNode) value {
	if len(p.Cmds) != 1 {
		c.unknown = true
		return unknown
	}
	return c.command(p.Cmds[0])
}

// command compiles a call, or a value that stands alone.
func (c *compiler) command(n *parse.CommandNode) value {
	if name, ok := n.Args[0].(*parse.IdentifierNode); ok {
		return c.call(name.Ident, n.Args[1:])
	}
	if len(n.Args) > 1 {
		c.unknown = true // a method with arguments
	}
	return c.operand(n.Args[0])
}

func (c *compiler) operand(node parse.Node) value {
	switch n := node.(type) {
	case *parse.DotNode:
		return func(f *frame) (reflect.Value, error) { return f.dot, nil }
	case *parse.FieldNode:
		return members(func(f *frame) (reflect.Value, error) { return f.dot, nil }, n.Ident)
	case *parse.VariableNode:
		return members(c.variable(n.Ident[0]), n.Ident[1:])
	case *parse.StringNode:
		return constant(n.Text)
	case *parse.BoolNode:
		return constant(n.True)
	case *parse.NumberNode:
		if n.IsInt && n.Text != "" && n.Text[0] != '\'' {
			return constant(int(n.Int64))
		}
	case *parse.PipeNode:
		if len(n.Decl) == 0 {
			return c.single(n)
		}
	}
	c.unknown = true
	return unknown
}

func (c *compiler) variable(name string) value {
	if name == "$" {
		return func(f *frame) (reflect.Value, error) { return f.data, nil }
	}
	for slot, declared := range slices.Backward(c.scope) {
		if declared == name {
			return func(f *frame) (reflect.Value, error) { return f.variables[slot], nil }
		}
	}
	c.unknown = true
	return unknown
}

// members follows the names of fields, and of methods without arguments.
func members(of value, names []string) value {
	if len(names) == 0 {
		return of
	}
	chain := make([]member, len(names))
	for i, name := range names {
		chain[i].name = name
	}
	return func(f *frame) (reflect.Value, error) {
		v, err := of(f)
		for i := range chain {
			if err != nil {
				break
			}
			v, err = chain[i].of(v)
		}
		return v, err
	}
}

// member is a name behind a dot. It remembers where the last type has it: most places see one type.
type member struct {
	name  string
	known atomic.Pointer[found]
}

// found is where a type has a member: the path of a field, or the number of a method.
type found struct {
	in     reflect.Type
	path   []int
	method int
	zero   bool // the method is that of zero, which is called without reflection
}

// zero is what pages ask most.
type zero interface{ IsZero() bool }

func (m *member) of(v reflect.Value) (reflect.Value, error) {
	if v = inside(v); v.Kind() != reflect.Struct {
		return v, ErrUnknown
	}
	at := m.known.Load()
	if at == nil || at.in != v.Type() {
		if at = find(v.Type(), m.name); at == nil {
			return v, ErrUnknown
		}
		m.known.Store(at)
	}
	if at.zero {
		return reflect.ValueOf(v.Interface().(zero).IsZero()), nil
	}
	if at.path == nil {
		return open(v.Method(at.method).Call(nil)[0]), nil
	}
	got, err := v.FieldByIndexErr(at.path)
	if err != nil {
		return v, ErrUnknown
	}
	return open(got), nil
}

// open returns what an interface holds, and other values as they are.
func open(v reflect.Value) reflect.Value {
	if v.Kind() == reflect.Interface {
		return v.Elem()
	}
	return v
}

// find returns where a struct type has a member, nil if it is not an exported field or a method without
// arguments and with one result. As in text/template, methods come first.
func find(t reflect.Type, name string) *found {
	if m, ok := t.MethodByName(name); ok {
		if m.Type.NumIn() != 1 || m.Type.NumOut() != 1 {
			return nil
		}
		return &found{in: t, method: m.Index, zero: name == "IsZero" && t.Implements(reflect.TypeFor[zero]())}
	}
	if _, ok := reflect.PointerTo(t).MethodByName(name); ok {
		return nil
	}
	field, ok := t.FieldByName(name)
	if !ok || !field.IsExported() {
		return nil
	}
	return &found{in: t, path: field.Index}
}

// inside returns what pointers and interfaces lead to, the zero Value for nil.
func inside(v reflect.Value) reflect.Value {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	return v
}

// truth reports whether a condition holds for a value, as text/template does for the kinds that it
// knows.
func truth(v reflect.Value) (bool, error) {
	switch v.Kind() {
	case reflect.Invalid:
		return false, nil
	case reflect.Bool:
		return v.Bool(), nil
	case reflect.String, reflect.Slice:
		return v.Len() > 0, nil
	case reflect.Int:
		return v.Int() != 0, nil
	case reflect.Pointer:
		return !v.IsNil(), nil
	case reflect.Struct:
		return true, nil
	}
	return false, ErrUnknown
}

// call compiles the call of a function.
func (c *compiler) call(name string, nodes []parse.Node) value {
	arguments := make([]value, len(nodes))
	for i, node := range nodes {
		arguments[i] = c.operand(node)
	}
	if special := logic(name, arguments); special != nil {
		return special
	}
	function := builtin(name)
	if function == nil {
		function = functionOf(c.functions[name])
	}
	if function == nil {
		c.unknown = true
		return unknown
	}
	return func(f *frame) (reflect.Value, error) {
		given := make([]any, len(arguments))
		for i, argument := range arguments {
			v, err := argument(f)
			if err != nil || !v.IsValid() {
				return v, ErrUnknown
			}
			given[i] = v.Interface()
		}
		result, err := function(given)
		return reflect.ValueOf(result), err
	}
}

// function is a function of a page, with any arguments.
type function func(arguments []any) (any, error)

// functionOf returns a function of a FuncMap, nil for one of a type that is not known.
func functionOf(f any) function {
	switch f := f.(type) {
	case func(any, ...any) (template.HTML, error):
		return variadic(f)
	case func(any, ...any) (string, error):
		return variadic(f)
	case func(string) any:
		return unary(f)
	case func([]string) any:
		return unary(f)
	case func(time.Time) any:
		return unary(f)
	}
	return nil
}

func variadic[T any](f func(any, ...any) (T, error)) function {
	return func(arguments []any) (any, error) {
		if len(arguments) == 0 {
			return nil, ErrUnknown
		}
		return f(arguments[0], arguments[1:]...)
	}
}

func unary[T any](f func(T) any) function {
	return func(arguments []any) (any, error) {
		if len(arguments) != 1 {
			return nil, ErrUnknown
		}
		argument, ok := arguments[0].(T)
		if !ok {
			return nil, ErrUnknown
		}
		return f(argument), nil
	}
}
