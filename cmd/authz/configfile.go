package main

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

	"gatehouse.example/authz"
)

// document is a configuration file that was read.
type document struct {
	name    string
	values  map[string]field // by the name of the flag
	found   []mistake
	secrets []secretPlace // the files with secrets that lists in it name
	inline  bool          // such a list holds a secret itself
	doubts  []string      // sentences about what weakens the server
}

// mistake is something wrong in one line of the file.
type mistake struct {
	line     int
	sentence string
}

// field is the value of one key.
type field struct {
	node ast.Node
	line int
}

// readDocument reads a YAML file that may have the keys known. A key is written with
// hyphens or underscores.
func readDocument(name string, data []byte, known []string) (*document, error) {
	d := &document{name: name, values: map[string]field{}}
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // some editors write a byte order mark (YAML 1.2.2 section 5.2)
	file, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, d.syntax(err)
	}
	switch {
	case len(file.Docs) > 1:
		return nil, fmt.Errorf("%s: there is more than one document in the file", name)
	case len(file.Docs) == 1 && file.Docs[0].Body != nil:
		d.values = d.section(field{file.Docs[0].Body, 1}, "the file", known)
	}
	return d, d.mistakes()
}

// mistakes returns what was found since it was last called, in the order of the lines.
func (d *document) mistakes() error {
	var errs []error
	slices.SortStableFunc(d.found, func(a, b mistake) int { return a.line - b.line })
	for _, m := range d.found {
		errs = append(errs, fmt.Errorf("%s:%d: %s", d.name, m.line, m.sentence))
	}
	d.found = nil
	return errors.Join(errs...)
}

// syntax keeps the source out of the message: it may hold a secret.
func (d *document) syntax(err error) error {
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

func (d *document) fail(line int, format string, args ...any) {
	d.found = append(d.found, mistake{line, fmt.Sprintf(format, args...)})
}

// section reads a mapping whose keys are all known.
func (d *document) section(f field, what string, known []string) map[string]field {
	out := map[string]field{}
	for _, pair := range d.pairs(f, what) {
		key := strings.ReplaceAll(pair.key, "_", "-")
		switch first, twice := out[key]; {
		case !slices.Contains(known, key):
			d.fail(pair.line, "unknown key %q: the nearest valid key is %q", pair.key, nearest(key, known))
		case twice:
			d.fail(pair.line, "%s is set twice, the first time in line %d", pair.key, first.line)
		default:
			out[key] = pair.field
		}
	}
	return out
}

// pair is one entry of a mapping.
type pair struct {
	key string
	field
}

// pairs reads a mapping in the order in which it is written.
func (d *document) pairs(f field, what string) []pair {
	mapping, ok := f.node.(*ast.MappingNode)
	if !ok {
		d.fail(f.line, "%s must be keys with values", what)
		return nil
	}
	var out []pair
	for _, entry := range mapping.Values {
		line := entry.Key.GetToken().Position.Line
		key, ok := entry.Key.(*ast.StringNode)
		if !ok {
			d.fail(line, "%q cannot be a key here", entry.Key.GetToken().Value)
			continue
		}
		out = append(out, pair{key.Value, field{entry.Value, line}})
	}
	return out
}

// text reads a single value. Numbers and truth values come as they are written.
func (d *document) text(f field, key string) string {
	switch node := f.node.(type) {
	case *ast.StringNode:
		return node.Value
	case *ast.LiteralNode:
		return node.Value.Value
	case *ast.BoolNode, *ast.IntegerNode, *ast.FloatNode:
		return node.GetToken().Value
	case *ast.NullNode, nil:
		d.fail(f.line, "%s has no value", key)
	default:
		d.fail(f.line, "%s must be a single value", key)
	}
	return ""
}

// elements reads a list.
func (d *document) elements(f field, key string) []field {
	sequence, ok := f.node.(*ast.SequenceNode)
	if !ok {
		d.fail(f.line, "%s must be a list", key)
		return nil
	}
	var out []field
	for _, node := range sequence.Values {
		line := f.line
		if token := node.GetToken(); token != nil && token.Position != nil {
			line = token.Position.Line
		}
		out = append(out, field{node, line})
	}
	return out
}

func (d *document) texts(f field, key string) []string {
	var out []string
	for _, element := range d.elements(f, key) {
		out = append(out, d.text(element, key))
	}
	return out
}

// oneOrMore reads a list, or a single value in place of a list of one.
func (d *document) oneOrMore(f field, key string) []string {
	switch f.node.(type) {
	case *ast.SequenceNode, *ast.MappingNode, *ast.NullNode, nil:
		return d.texts(f, key)
	}
	return []string{d.text(f, key)}
}

// assign gives a flag the value of its key.
func (d *document) assign(flag *kong.Flag, f field, from origin) error {
	var list []string
	var text string
	switch _, mapping := f.node.(*ast.MappingNode); {
	case mapping && flag.Tag.Has("pairs"):
		for _, pair := range d.pairs(f, flag.Name) {
			list = append(list, pair.key+"="+d.text(pair.field, pair.key))
		}
	case flag.IsSlice():
		list = d.oneOrMore(f, flag.Name)
	default:
		text = d.text(f, flag.Name)
	}
	if err := d.mistakes(); err != nil {
		return err
	}
	return assign(flag, list, text, from)
}

// resources reads the list resources. It is not read together with the other
// settings because it may name files with secrets, which only serve needs to open.
func (d *document) resources() ([]authz.Resource, error) { return listed(d, "resources", d.resource) }

// listed reads each element of a list, if the file has it.
func listed[T any](d *document, key string, read func(field) T) ([]T, error) {
	var out []T
	if f, ok := d.values[key]; ok {
		for _, element := range d.elements(f, key) {
			out = append(out, read(element))
		}
	}
	return out, d.mistakes()
}

func (d *document) resource(f field) authz.Resource {
	keys := d.section(f, "a resource", []string{"uri", "name", "default", "scopes", "default-scopes", "introspection"})
	var r authz.Resource
	for key, value := range keys {
		switch key {
		case "uri":
			r.URI = d.text(value, key)
		case "name":
			r.Name = d.text(value, key)
		case "default":
			r.Default = d.truth(value, key)
		case "scopes":
			r.Scopes = d.scopes(value)
		case "default-scopes":
			r.DefaultScopes = d.texts(value, key)
		case "introspection":
			r.Introspection = d.introspection(value)
		}
	}
	if _, ok := keys["uri"]; !ok {
		d.fail(f.line, "a resource needs the key \"uri\"")
	}
	return r
}

func (d *document) truth(f field, key string) bool {
	node, ok := f.node.(*ast.BoolNode)
	if !ok {
		d.fail(f.line, "%s must be true or false", key)
		return false
	}
	return node.Value
}

// scopes reads a mapping from scope to description, in its order. In braces the parser
// would cut notes:read at its first colon, so there they are refused.
func (d *document) scopes(f field) []authz.Scope {
	if mapping, ok := f.node.(*ast.MappingNode); ok && mapping.IsFlowStyle {
		d.fail(f.line, "scopes must not be in braces: write each scope on a line of its own")
		return nil
	}
	var out []authz.Scope
	for _, pair := range d.pairs(f, "scopes") {
		out = append(out, authz.Scope{Name: pair.key, Description: d.text(pair.field, pair.key)})
	}
	return out
}

func (d *document) introspection(f field) *authz.IntrospectionClient {
	keys := d.section(f, "introspection", []string{"client-id", "client-secret", "client-secret-file"})
	var c authz.IntrospectionClient
	if id, ok := keys["client-id"]; ok {
		c.ID = d.text(id, "client_id")
	}
	_, ownGiven := keys["client-secret"]
	_, fileGiven := keys["client-secret-file"]
	if !ownGiven && !fileGiven {
		d.fail(f.line, "introspection needs client_secret or client_secret_file")
	}
	c.Secret = d.clientSecret(keys)
	return &c
}

func (d *document) secretFile(f field) string {
	name := d.text(f, "client_secret_file")
	if name == "" {
		return ""
	}
	d.secrets = append(d.secrets, secretPlace{"client_secret_file", name})
	text, err := secretFrom(name)
	if err != nil {
		d.fail(f.line, "client_secret_file: %v", err)
	}
	return text
}
