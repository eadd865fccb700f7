package settings

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/goccy/go-yaml/ast"
)

// ReadJSON turns a YAML file with any keys into JSON.
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

// maxDeep is how deep the values of a file may be nested.
const maxDeep = 32

// json writes a value as JSON. What JSON does not have is a mistake.
func (d *Document) json(b []byte, f Field, depth int) []byte {
	if depth > maxDeep {
		d.Fail(f.Line, "values are nested more than %d deep", maxDeep)
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
		d.Fail(f.Line, "%s is no number of JSON", node.GetToken().Value)
		return append(b, "null"...)
	case *ast.FloatNode, *ast.StringNode, *ast.LiteralNode:
		return d.scalar(b, f)
	case *ast.SequenceNode:
		b = append(b, '[')
		for i, element := range d.Elements(f, "a list") {
			if i > 0 {
				b = append(b, ',')
			}
			b = d.json(b, element, depth+1)
		}
		return append(b, ']')
	case *ast.MappingNode:
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
	d.Fail(f.Line, "anchors, aliases and tags are not read")
	return append(b, "null"...)
}

// scalar writes a number with a fraction, or a text.
func (d *Document) scalar(b []byte, f Field) []byte {
	node, number := f.node.(*ast.FloatNode)
	if !number {
		return appendString(b, d.Text(f, "a value"))
	}
	text, err := json.Marshal(node.Value)
	if err != nil {
		d.Fail(f.Line, "%s is no number of JSON", node.GetToken().Value)
	}
	return append(b, text...)
}

func appendString(b []byte, s string) []byte {
	text, _ := json.Marshal(s) // a string can be written
	return append(b, text...)
}
