package settings

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// Document is a configuration file that was read.
type Document struct {
	// Values has the fields of the file by the name of the flag or list, with hyphens.
	Values map[string]Field
	// Doubts are warnings about settings in lists of the file that weaken the program.
	Doubts []string

	name    string
	found   []mistake
	secrets []secretPlace // files with secrets that are named in lists
	inline  bool          // a list contains a secret itself
}

// mistake is something wrong in one line of the file.
type mistake struct {
	line     int
	sentence string
}

// Field is the value of one key.
type Field struct {
	node ast.Node
	Line int
}

// ReadDocument parses a YAML file in which only the keys known are allowed, written with
// hyphens or underscores. The error has a line for every mistake in the top level. The document
// is nil if data is not one YAML document.
func ReadDocument(name string, data []byte, known []string) (*Document, error) {
	d := &Document{name: name, Values: map[string]Field{}}
	body, err := d.parse(data)
	if err != nil {
		return nil, err
	}
	if body != nil {
		d.Values = d.Section(Field{body, 1}, "the file", known)
	}
	return d, d.Mistakes()
}

// parse returns the content of the only document in a file, nil if it is empty.
func (d *Document) parse(data []byte) (ast.Node, error) {
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // some editors write a byte order mark (YAML 1.2.2 section 5.2)
	file, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	switch {
	case err != nil:
		return nil, d.syntax(err)
	case len(file.Docs) > 1:
		return nil, fmt.Errorf("%s: there is more than one document in the file", d.name)
	case len(file.Docs) == 0:
		return nil, nil
	}
	return file.Docs[0].Body, nil
}

// Mistakes returns the mistakes that were recorded since its last call, in the order of their
// lines.
func (d *Document) Mistakes() error {
	var errs []error
	slices.SortStableFunc(d.found, func(a, b mistake) int { return a.line - b.line })
	for _, m := range d.found {
		errs = append(errs, fmt.Errorf("%s:%d: %s", d.name, m.line, m.sentence))
	}
	d.found = nil
	return errors.Join(errs...)
}

// Fail records a mistake in a line.
func (d *Document) Fail(line int, format string, args ...any) {
	d.found = append(d.found, mistake{line, fmt.Sprintf(format, args...)})
}

// Section reads a mapping in which only the keys known are allowed. What names the mapping in
// mistakes.
func (d *Document) Section(f Field, what string, known []string) map[string]Field {
	out := map[string]Field{}
	for _, pair := range d.Pairs(f, what) {
		key := strings.ReplaceAll(pair.Key, "_", "-")
		switch first, twice := out[key]; {
		case !slices.Contains(known, key):
			d.Fail(pair.Line, "unknown key %q: the nearest valid key is %q", pair.Key, nearest(key, known))
		case twice:
			d.Fail(pair.Line, "%s is set twice, the first time in line %d", pair.Key, first.Line)
		default:
			out[key] = pair.Field
		}
	}
	return out
}

// Null reports whether a key has no value.
func (f Field) Null() bool {
	_, null := f.node.(*ast.NullNode)
	return null || f.node == nil
}

// Mapping reports whether f is a mapping.
func (f Field) Mapping() bool {
	_, ok := f.node.(*ast.MappingNode)
	return ok
}

// Braced reports whether f is a mapping in braces (flow style), and whether it has entries. In
// braces the parser cuts names such as notes:read at their first colon.
func (f Field) Braced() (is, filled bool) {
	mapping, ok := f.node.(*ast.MappingNode)
	return ok && mapping.IsFlowStyle, ok && len(mapping.Values) > 0
}

// Entries returns the entries of a mapping whose keys are strings, none if f is not a mapping.
// Only [Document.Pairs] records other keys as mistakes.
func (f Field) Entries() []Pair {
	entries, _ := f.entries()
	return entries
}

// entries returns the entries of a mapping, and apart from them those whose keys are not
// strings, under the source text of the key.
func (f Field) entries() (entries, invalid []Pair) {
	mapping, ok := f.node.(*ast.MappingNode)
	if !ok {
		return nil, nil
	}
	for _, entry := range mapping.Values {
		token := entry.Key.GetToken()
		value := Field{entry.Value, token.Position.Line}
		if key, ok := entry.Key.(*ast.StringNode); ok {
			entries = append(entries, Pair{key.Value, value})
		} else {
			invalid = append(invalid, Pair{token.Value, value})
		}
	}
	return entries, invalid
}

// Failures returns the number of mistakes that were recorded since the last call of Mistakes.
func (d *Document) Failures() int { return len(d.found) }

// Under returns the mapping under a key as a document of its own, in which only the keys known
// are allowed. It is empty if d is nil or does not have the key.
func (d *Document) Under(key string, known []string) *Document {
	out := &Document{Values: map[string]Field{}}
	if d == nil {
		return out
	}
	out.name = d.name
	if f, ok := d.Values[key]; ok {
		out.Values = out.Section(f, key, known)
	}
	return out
}

// Pair is one entry of a mapping.
type Pair struct {
	Key string
	Field
}

// Pairs reads a mapping in the order of the file. What names the mapping in mistakes.
func (d *Document) Pairs(f Field, what string) []Pair {
	if _, ok := f.node.(*ast.MappingNode); !ok {
		d.Fail(f.Line, "%s must be keys with values", what)
		return nil
	}
	entries, invalid := f.entries()
	for _, entry := range invalid {
		d.Fail(entry.Line, "%q is not a string, so it cannot be a key", entry.Key)
	}
	return entries
}

// Text reads a single value. It returns numbers and booleans as they are written.
func (d *Document) Text(f Field, key string) string {
	switch node := f.node.(type) {
	case *ast.StringNode:
		return node.Value
	case *ast.LiteralNode:
		return node.Value.Value
	case *ast.BoolNode, *ast.IntegerNode, *ast.FloatNode:
		return node.GetToken().Value
	case *ast.NullNode, nil:
		d.Fail(f.Line, "%s has no value", key)
	default:
		d.Fail(f.Line, "%s must be a single value", key)
	}
	return ""
}

// Elements reads a list.
func (d *Document) Elements(f Field, key string) []Field {
	sequence, ok := f.node.(*ast.SequenceNode)
	if !ok {
		d.Fail(f.Line, "%s must be a list", key)
		return nil
	}
	var out []Field
	for _, node := range sequence.Values {
		line := f.Line
		if token := node.GetToken(); token != nil && token.Position != nil {
			line = token.Position.Line
		}
		out = append(out, Field{node, line})
	}
	return out
}

// Texts reads a list of single values.
func (d *Document) Texts(f Field, key string) []string {
	var out []string
	for _, element := range d.Elements(f, key) {
		out = append(out, d.Text(element, key))
	}
	return out
}

// OneOrMore reads a list of single values, or one single value as a list of one.
func (d *Document) OneOrMore(f Field, key string) []string {
	switch f.node.(type) {
	case *ast.SequenceNode, *ast.MappingNode, *ast.NullNode, nil:
		return d.Texts(f, key)
	}
	return []string{d.Text(f, key)}
}

// assign sets a flag to the value of its key.
func (d *Document) assign(flag *kong.Flag, f Field, from Origin) error {
	var list []string
	var text string
	switch _, mapping := f.node.(*ast.MappingNode); {
	case mapping && flag.Tag.Has("pairs"):
		for _, pair := range d.Pairs(f, flag.Name) {
			list = append(list, pair.Key+"="+d.Text(pair.Field, pair.Key))
		}
	case flag.IsSlice():
		list = d.OneOrMore(f, flag.Name)
	default:
		text = d.Text(f, flag.Name)
	}
	if err := d.Mistakes(); err != nil {
		return err
	}
	return assign(flag, list, text, from)
}

// Listed reads each element of the list under a key, none if the file does not have the key.
func Listed[T any](d *Document, key string, read func(*Document, Field) T) ([]T, error) {
	var out []T
	if f, ok := d.Values[key]; ok {
		for _, element := range d.Elements(f, key) {
			out = append(out, read(d, element))
		}
	}
	return out, d.Mistakes()
}

// Truth reads a boolean.
func (d *Document) Truth(f Field, key string) bool {
	node, ok := f.node.(*ast.BoolNode)
	if !ok {
		d.Fail(f.Line, "%s must be true or false", key)
		return false
	}
	return node.Value
}
