package settings

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/goccy/go-yaml/ast"
)

// ReadJSON converts a YAML file to JSON. It accepts any keys. An empty file is an empty object.
func ReadJSON(name string, data []byte) (json.RawMessage, error) {
	d := &Document{name: name}
	body, err := d.parse(data)
	switch {
	case err != nil:
		return nil, err
	case body == nil:
		return json.RawMessage("{}"), nil
	}
	out := d.json(nil, Field{body, 1}, 0)
	return out, d.Mistakes()
}

// maxDepth is the greatest depth to which the values of a file may be nested.
const maxDepth = 32

// json appends a value to b as JSON. It records values that JSON cannot express as mistakes.
func (d *Document) json(b []byte, f Field, depth int) []byte {
	if depth > maxDepth {
		d.Fail(f.Line, "values are nested more than %d deep", maxDepth)
		return append(b, "null"...)
	}
	switch f.node.(type) {
	case *ast.SequenceNode:
		return d.jsonArray(b, f, depth)
	case *ast.MappingNode:
		return d.jsonObject(b, f, depth)
	}
	return d.jsonScalar(b, f)
}

func (d *Document) jsonArray(b []byte, f Field, depth int) []byte {
	b = append(b, '[')
	for i, element := range d.Elements(f, "a list") {
		if i > 0 {
			b = append(b, ',')
		}
		b = d.json(b, element, depth+1)
	}
	return append(b, ']')
}

func (d *Document) jsonObject(b []byte, f Field, depth int) []byte {
	b = append(b, '{')
	lines := map[string]int{}
	for i, pair := range d.Pairs(f, "a value") {
		if first := lines[pair.Key]; first > 0 {
			d.Fail(pair.Line, "%s is set twice, the first time in line %d", pair.Key, first)
		}
		lines[pair.Key] = pair.Line
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendString(b, pair.Key), ':')
		b = d.json(b, pair.Field, depth+1)
	}
	return append(b, '}')
}

// jsonScalar appends a single value.
func (d *Document) jsonScalar(b []byte, f Field) []byte {
	switch node := f.node.(type) {
	case *ast.NullNode, nil:
		return append(b, "null"...)
	case *ast.BoolNode:
		return strconv.AppendBool(b, node.Value)
	case *ast.IntegerNode:
		return fmt.Append(b, node.Value)
	case *ast.FloatNode:
		text, err := json.Marshal(node.Value)
		if err != nil {
			d.Fail(f.Line, notJSONNumber, node.GetToken().Value)
		}
		return append(b, text...)
	case *ast.StringNode, *ast.LiteralNode:
		return appendString(b, d.Text(f, "a value"))
	case *ast.InfinityNode, *ast.NanNode:
		d.Fail(f.Line, notJSONNumber, node.GetToken().Value)
	default:
		d.Fail(f.Line, "anchors, aliases and tags are not supported")
	}
	return append(b, "null"...)
}

const notJSONNumber = "%s is not a number in JSON"

func appendString(b []byte, s string) []byte {
	text, _ := json.Marshal(s) // cannot fail for a string
	return append(b, text...)
}
