package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image/png"
	"net/http"
	"slices"
	"testing"

	"gatehouse.example/message"
	"gatehouse.example/message/icon"
	"gatehouse.example/message/schema"
)

// described has the members of a server or a tool that the tests check.
type described struct {
	Name         string          `json:"name"`
	Icons        []message.Icon  `json:"icons"`
	InputSchema  json.RawMessage `json:"inputSchema"`
	OutputSchema json.RawMessage `json:"outputSchema"`
}

// describe requests the descriptions of the server and its tools.
func describe(t *testing.T, c *caller) (server described, tools []described) {
	t.Helper()
	method, params := "initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}`
	if c.modern {
		method, params = "server/discover", `{}`
	}
	var about struct {
		Result struct {
			ServerInfo described                  `json:"serverInfo"`
			Meta       map[string]json.RawMessage `json:"_meta"`
		} `json:"result"`
	}
	fresh := *c
	fresh.session = ""
	_, text := fresh.post(t, method, params)
	if err := json.Unmarshal([]byte(text), &about); err != nil {
		t.Fatal(err)
	}
	if server = about.Result.ServerInfo; c.modern {
		if err := json.Unmarshal(about.Result.Meta[message.MetaServerInfo], &server); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
	}
	var list struct {
		Result struct {
			Tools []described `json:"tools"`
		} `json:"result"`
	}
	_, text = c.post(t, "tools/list", `{}`)
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		t.Fatal(err)
	}
	return server, list.Result.Tools
}

// The server and each tool have an icon of their own that the rules of package icon accept: an
// image in the message itself, of the stated type and size.
func TestIcons(t *testing.T) {
	eachEraAt(t, archivingDesk(t), func(t *testing.T, d demo, as func(string, string) *caller) {
		server, tools := describe(t, as("reader", ""))
		seen := map[string]string{}
		for _, item := range append(tools, server) {
			if len(item.Icons) != 1 {
				t.Errorf("%s has %d icons, want 1", item.Name, len(item.Icons))
				continue
			}
			if same := seen[item.Icons[0].Src]; same != "" {
				t.Errorf("%s looks like %s", item.Name, same)
			}
			seen[item.Icons[0].Src] = item.Name
			checkIcon(t, item.Name, item.Icons[0], d.resource)
		}
	})
}

func checkIcon(t *testing.T, name string, i message.Icon, origin string) {
	t.Helper()
	if err := i.Validate(); err != nil {
		t.Errorf("%s: %v", name, err)
	}
	picture, err := icon.New(nil).Get(t.Context(), i, origin) // without anything to fetch with
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	size, err := png.DecodeConfig(bytes.NewReader(picture))
	if err != nil || !slices.Equal(i.Sizes, []string{fmt.Sprintf("%dx%d", size.Width, size.Height)}) || i.MIMEType != "image/png" {
		t.Errorf("%s: %q of type %s is %d by %d, %v", name, i.Sizes, i.MIMEType, size.Width, size.Height, err)
	}
}

// Every schema of the server is valid, and the results of tools match their schemas.
func TestSchemas(t *testing.T) {
	arguments := map[string]string{"whoami": `{}`, "add_note": `{"text":"milk"}`, "list_notes": `{}`, "archive_notes": `{}`}
	eachEraAt(t, archivingDesk(t), func(t *testing.T, _ demo, as func(string, string) *caller) {
		c := as("reader", "notes:read notes:write")
		_, tools := describe(t, c)
		if len(tools) != len(arguments) {
			t.Errorf("there are %d tools, want %d", len(tools), len(arguments))
		}
		for _, tool := range tools {
			checkSchemas(t, c, tool, arguments[tool.Name])
		}
	})
}

// TestSchemasHaveOneTypeEach checks that each value in a schema has one type, for clients that
// do not support lists of types. The Inspector warns of those.
func TestSchemasHaveOneTypeEach(t *testing.T) {
	eachEraAt(t, archivingDesk(t), func(t *testing.T, _ demo, as func(string, string) *caller) {
		_, tools := describe(t, as("reader", "notes:read notes:write"))
		for _, tool := range tools {
			for _, raw := range []json.RawMessage{tool.InputSchema, tool.OutputSchema} {
				var parsed map[string]any
				if err := json.Unmarshal(raw, &parsed); err != nil {
					t.Fatal(err)
				}
				checkOneType(t, tool.Name, parsed)
			}
		}
	})
}

// checkOneType checks a schema and the schemas within it.
func checkOneType(t *testing.T, where string, schema map[string]any) {
	t.Helper()
	if _, ok := schema["type"].(string); !ok {
		t.Errorf("%s: the type is %v", where, schema["type"])
	}
	properties, _ := schema["properties"].(map[string]any)
	for name, property := range properties {
		inner, _ := property.(map[string]any)
		checkOneType(t, where+"."+name, inner)
	}
	if items, ok := schema["items"].(map[string]any); ok {
		checkOneType(t, where+"[]", items)
	}
}

// checkSchemas calls a tool and validates its arguments and its result with its schemas.
func checkSchemas(t *testing.T, c *caller, tool described, arguments string) {
	t.Helper()
	input, err := schema.Compile(tool.InputSchema, schema.Options{ObjectRoot: true})
	if err != nil {
		t.Errorf("%s: input: %v", tool.Name, err)
		return
	}
	output, err := schema.Compile(tool.OutputSchema, schema.Options{ObjectRoot: true})
	if err != nil {
		t.Errorf("%s: output: %v", tool.Name, err)
		return
	}
	if err := input.Validate(t.Context(), []byte(arguments)); err != nil {
		t.Errorf("%s: the arguments: %v", tool.Name, err)
	}
	for _, other := range []string{`{}`, `{"another":"thing"}`} {
		if err := output.Validate(t.Context(), []byte(other)); err == nil {
			t.Errorf("%s: the schema allows %s", tool.Name, other)
		}
	}
	resp, answer := c.call(t, tool.Name, arguments)
	if resp.StatusCode != http.StatusOK || answer.Result.IsError {
		t.Errorf("%s: %s %+v", tool.Name, resp.Status, answer)
		return
	}
	if err := output.Validate(t.Context(), answer.Result.StructuredContent); err != nil {
		t.Errorf("%s: %s: %v", tool.Name, answer.Result.StructuredContent, err)
	}
}
