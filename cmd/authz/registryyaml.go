package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"gatehouse.example/message"
	"gatehouse.example/registry"
)

// ownServers reads a list of servers of our own and returns them with every mistake.
func (d *document) ownServers(f field) []registry.OwnServer {
	var out []registry.OwnServer
	for _, element := range d.elements(f, "servers") {
		server := d.ownServer(element)
		before := len(d.found)
		if _, err := server.Item(); err != nil && len(d.found) == before {
			d.fail(element.line, "%s", ownMistake(err))
		}
		out = append(out, server)
	}
	return out
}

// ownKeys are the keys of a server of our own.
var ownKeys = []string{"name", "version", "title", "description", "website", "url", "transport", "scopes", "icon", "icons", "status", "status-message", "record"}

func (d *document) ownServer(f field) (s registry.OwnServer) {
	keys := d.section(f, "a server", ownKeys)
	for key, to := range map[string]*string{
		"name": &s.Name, "version": &s.Version, "title": &s.Title, "description": &s.Description, "website": &s.Website,
		"url": &s.URL, "transport": &s.Transport, "status": (*string)(&s.Status), "status-message": &s.StatusMessage,
	} {
		if value, ok := keys[key]; ok {
			*to = d.text(value, key)
		}
	}
	if value, ok := keys["record"]; ok {
		s.Record = json.RawMessage(d.text(value, "record"))
	}
	if value, ok := keys["scopes"]; ok {
		s.Scopes = ownScopes(d.scopes(value))
	}
	if value, ok := keys["icon"]; ok {
		s.Icons = append(s.Icons, message.Icon{Src: d.text(value, "icon")})
	}
	if value, ok := keys["icons"]; ok {
		for _, element := range d.elements(value, "icons") {
			s.Icons = append(s.Icons, d.icon(element))
		}
	}
	return s
}

func (d *document) icon(f field) (i message.Icon) {
	for key, value := range d.section(f, "an icon", []string{"src", "mime-type", "sizes", "theme"}) {
		switch key {
		case "src":
			i.Src = d.text(value, key)
		case "mime-type":
			i.MIMEType = d.text(value, key)
		case "sizes":
			i.Sizes = d.oneOrMore(value, key)
		case "theme":
			i.Theme = d.text(value, key)
		}
	}
	return i
}

// readServers reads a file of servers of our own.
func readServers(name string, data []byte) ([]registry.OwnServer, error) {
	d, err := readDocument(name, data, []string{"servers"})
	if err != nil {
		return nil, err
	}
	f, ok := d.values["servers"]
	if !ok {
		return nil, fmt.Errorf("%s: there is no list servers in it; write [] behind it for none", name)
	}
	servers := d.ownServers(f)
	return servers, d.mistakes()
}

// readMeta turns a file of what is said about servers into JSON, unless it is JSON.
func readMeta(name string, data []byte) (json.RawMessage, error) {
	if strings.EqualFold(filepath.Ext(name), ".json") {
		return data, nil
	}
	d := &document{name: name}
	file, err := parser.ParseBytes(bytes.TrimPrefix(data, []byte("\ufeff")), 0, parser.AllowDuplicateMapKey())
	switch {
	case err != nil:
		return nil, d.syntax(err)
	case len(file.Docs) > 1:
		return nil, fmt.Errorf("%s: there is more than one document in the file", name)
	case len(file.Docs) == 0 || file.Docs[0].Body == nil:
		return json.RawMessage("{}"), nil
	}
	out := d.json(nil, field{file.Docs[0].Body, 1}, 0)
	return out, d.mistakes()
}

// maxDeep is how deep the values of a file may be nested.
const maxDeep = 32

// json writes a value as JSON. What JSON does not have is a mistake.
func (d *document) json(b []byte, f field, depth int) []byte {
	if depth > maxDeep {
		d.fail(f.line, "values are nested more than %d deep", maxDeep)
		return append(b, "null"...)
	}
	switch node := f.node.(type) {
	case *ast.NullNode, nil:
		return append(b, "null"...)
	case *ast.BoolNode:
		return strconv.AppendBool(b, node.Value)
	case *ast.IntegerNode:
		return fmt.Append(b, node.Value)
	case *ast.InfinityNode, *ast.NanNode:
		d.fail(f.line, "%s is no number of JSON", node.GetToken().Value)
		return append(b, "null"...)
	case *ast.FloatNode, *ast.StringNode, *ast.LiteralNode:
		return d.scalar(b, f)
	case *ast.SequenceNode:
		b = append(b, '[')
		for i, element := range d.elements(f, "a list") {
			if i > 0 {
				b = append(b, ',')
			}
			b = d.json(b, element, depth+1)
		}
		return append(b, ']')
	case *ast.MappingNode:
		b = append(b, '{')
		lines := map[string]int{}
		for i, pair := range d.pairs(f, "a value") {
			if first := lines[pair.key]; first > 0 {
				d.fail(pair.line, "%s is set twice, the first time in line %d", pair.key, first)
			}
			lines[pair.key] = pair.line
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendString(b, pair.key), ':')
			b = d.json(b, pair.field, depth+1)
		}
		return append(b, '}')
	}
	d.fail(f.line, "anchors, aliases and tags are not read")
	return append(b, "null"...)
}

// scalar writes a number with a fraction, or a text.
func (d *document) scalar(b []byte, f field) []byte {
	node, number := f.node.(*ast.FloatNode)
	if !number {
		return appendString(b, d.text(f, "a value"))
	}
	text, err := json.Marshal(node.Value)
	if err != nil {
		d.fail(f.line, "%s is no number of JSON", node.GetToken().Value)
	}
	return append(b, text...)
}

func appendString(b []byte, s string) []byte {
	text, _ := json.Marshal(s) // a string can be written
	return append(b, text...)
}
