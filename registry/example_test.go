package registry_test

import (
	"errors"
	"fmt"

	"gatehouse.example/registry"
)

func ExampleParseRecord() {
	record, err := registry.ParseRecord([]byte(`{
		"$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
		"name": "com.example/notes",
		"description": "Reads and writes notes.",
		"version": "1.0.0",
		"remotes": [{"type": "streamable-http", "url": "https://notes.example.com/mcp"}]
	}`))
	fmt.Println(record, record.Remotes()[0].URL, err)

	_, err = registry.ParseRecord([]byte(`{"name": "com.example/notes", "description": "Notes.", "version": "^1.0", "websiteUrl": "javascript:alert(1)"}`))
	if invalid := (*registry.InvalidError)(nil); errors.As(err, &invalid) {
		for _, fault := range invalid.Faults {
			fmt.Println(fault)
		}
	}
	// Output:
	// com.example/notes 1.0.0 https://notes.example.com/mcp <nil>
	// version: it must be one version, not a range
	// websiteUrl: it must be an absolute URL, with https or http
}

func ExampleParseItem() {
	item, err := registry.ParseItem([]byte(`{
		"name": "com.example/notes", "description": "Notes.", "version": "1.0.0",
		"status": "deprecated",
		"_meta": {"com.example.market/rating": {"stars": 4.5}}
	}`))
	fmt.Println(item.Record, item.Official.Status, string(item.Meta["com.example.market/rating"]), err)
	// Output:
	// com.example/notes 1.0.0 deprecated {"stars": 4.5} <nil>
}
