package settings

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// Document is a configuration file that was read.
type Document struct {
	// Values are what it says, by the name of the flag or list.
	Values map[string]Field
	// Doubts are sentences about what in it weakens the program.
	Doubts []string

	name    string
	found   []mistake
	secrets []secretPlace // the files with secrets that lists in it name
	inline  bool          // such a list holds a secret itself
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

// ReadDocument reads a YAML file that may have the keys known. A key is written with
// hyphens or underscores.
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

// parse returns what the one document in a file holds, nil if it holds nothing.
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

// Mistakes returns what was found since it was last called, in the order of the lines.
func (d *Document) Mistakes() error {
	var errs []error
	slices.SortStableFunc(d.found, func(a, b mistake) int { return a.line - b.line })
	for _, m := range d.found {
		errs = append(errs, fmt.Errorf("%s:%d: %s", d.name, m.line, m.sentence))
	}
	d.found = nil
	return errors.Join(errs...)
}

// syntax keeps the source out of the message: it may hold a secret.
func (d *Document) syntax(err error) error {
	var positioned yaml.Error
	if errors.As(err, &positioned) && positioned.GetToken() != nil && positioned.GetToken().Position != nil {
		message := positioned.GetMessage()
		if quote := strings.IndexAny(message, "\"'`"); quote >= 0 {
			message = strings.TrimRight(message[:quote], " :") // what follows is the source
		}
		return fmt.Errorf("%s:%d: this is not YAML: %s", d.name, positioned.GetToken().Position.Line, message)
	}
	return fmt.Errorf("%s: this is not YAML", d.name)
}

// Fail notes a mistake in a line.
func (d *Document) Fail(line int, format string, args ...any) {
	d.found = append(d.found, mistake{line, fmt.Sprintf(format, args...)})
}

// Section reads a mapping whose keys are all known.
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

// Null reports whether nothing is written where a value should be.
func (f Field) Null() bool {
	_, null := f.node.(*ast.NullNode)
	return null || f.node == nil
}

// Braced reports whether a mapping is written in braces, and is not empty if filled. In them the
// parser cuts names such as notes:read at their first colon.
func (f Field) Braced() (is, filled bool) {
	mapping, ok := f.node.(*ast.MappingNode)
	return ok && mapping.IsFlowStyle, ok && len(mapping.Values) > 0
}

// Entries are those of a mapping whose keys are texts. What else there is, pairs tells of.
func (f Field) Entries() (out []Pair) {
	mapping, ok := f.node.(*ast.MappingNode)
	if !ok {
		return nil
	}
	for _, entry := range mapping.Values {
		if key, ok := entry.Key.(*ast.StringNode); ok {
			out = append(out, Pair{key.Value, Field{entry.Value, entry.Key.GetToken().Position.Line}})
		}
	}
	return out
}

// Failures counts the mistakes that were found since they were last asked for.
func (d *Document) Failures() int { return len(d.found) }

// Under returns what stands under a key as a document of its own, whose keys are known. It is
// empty if nothing does, and if there is no document.
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

// Pairs reads a mapping in the order in which it is written.
func (d *Document) Pairs(f Field, what string) []Pair {
	mapping, ok := f.node.(*ast.MappingNode)
	if !ok {
		d.Fail(f.Line, "%s must be keys with values", what)
		return nil
	}
	var out []Pair
	for _, entry := range mapping.Values {
		line := entry.Key.GetToken().Position.Line
		key, ok := entry.Key.(*ast.StringNode)
		if !ok {
			d.Fail(line, "%q cannot be a key here", entry.Key.GetToken().Value)
			continue
		}
		out = append(out, Pair{key.Value, Field{entry.Value, line}})
	}
	return out
}

// Text reads a single value. Numbers and truth values come as they are written.
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

// OneOrMore reads a list, or a single value in place of a list of one.
func (d *Document) OneOrMore(f Field, key string) []string {
	switch f.node.(type) {
	case *ast.SequenceNode, *ast.MappingNode, *ast.NullNode, nil:
		return d.Texts(f, key)
	}
	return []string{d.Text(f, key)}
}

// assign gives a flag the value of its key.
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

// Listed reads each element of a list, if the file has it.
func Listed[T any](d *Document, key string, read func(*Document, Field) T) ([]T, error) {
	var out []T
	if f, ok := d.Values[key]; ok {
		for _, element := range d.Elements(f, key) {
			out = append(out, read(d, element))
		}
	}
	return out, d.Mistakes()
}

// Truth reads true or false.
func (d *Document) Truth(f Field, key string) bool {
	node, ok := f.node.(*ast.BoolNode)
	if !ok {
		d.Fail(f.Line, "%s must be true or false", key)
		return false
	}
	return node.Value
}
