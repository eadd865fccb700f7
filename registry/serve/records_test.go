package serve_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"testing"
	"time"

	"gatehouse.example/message/schema"
	"gatehouse.example/registry"
)

// object is a JSON object.
type object = map[string]any

// minimal returns a record with the required members, then changed. A nil value removes a
// member.
func minimal(changes object) []byte {
	record := object{"name": "com.example/notes", "description": "Notes.", "version": "1.0.0"}
	maps.Copy(record, changes)
	maps.DeleteFunc(record, func(_ string, value any) bool { return value == nil })
	return encode(record)
}

func encode(v any) []byte {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		panic(err)
	}
	return bytes.TrimSpace(b.Bytes())
}

func day(n int) time.Time { return time.Date(2025, 10, n, 12, 30, 0, 0, time.UTC) }

// described returns the schema of a record, an item or a list as this registry serves it.
func described(t *testing.T, part string) *schema.Schema {
	t.Helper()
	var is struct {
		Defs json.RawMessage `json:"$defs"`
	}
	if err := json.Unmarshal(registry.Schema(), &is); err != nil {
		t.Fatal(err)
	}
	s, err := schema.Compile([]byte(`{"$schema":"https://json-schema.org/draft/2020-12/schema","$ref":"#/$defs/`+part+`","$defs":`+string(is.Defs)+`}`), schema.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

const (
	official  = `"io.modelcontextprotocol.registry/official"`
	publisher = `"io.modelcontextprotocol.registry/publisher-provided"`
	// required are the members that every record has.
	required = `"name":"com.example/a","description":"d","version":"1.0.0"`
)
