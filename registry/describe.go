package registry

import (
	"encoding/json"
	"maps"
	"strings"
	"sync"
)

// This file is the only description of records and answers. Records are validated against it,
// it is served at /v0.1/schema, and tests validate the answers of this registry against it. Its
// facts come from the official registry (the schema of server.json of 2025-12-11 and the
// interface of 2025-12-01).

// described is a JSON Schema under construction.
type described map[string]any

const (
	dialect = "https://json-schema.org/draft/2020-12/schema"

	// The URL of a server. In answers it may begin with a variable, as records of other
	// schema dates have it.
	placePattern    = `^https?://[^\s]+$`
	templatePattern = `^(https?://[^\s]+|\{[a-zA-Z_][a-zA-Z0-9_]*\}[^\s]*)$`

	digestPattern = `^[a-f0-9]{64}$`
	sizesPattern  = `^(\d+x\d+|any)$`

	maxTitle   = 100
	maxIconURL = 255
)

func aText() described   { return described{"type": "string"} }
func aFlag() described   { return described{"type": "boolean"} }
func aChoice() described { return aFlag().but(described{"default": false}) }
func aURL() described    { return described{"type": "string", "format": "uri"} }
func aTime() described   { return described{"type": "string", "format": "date-time"} }

// but returns a copy of d with further rules.
func (d described) but(rules described) described {
	more := maps.Clone(d)
	maps.Copy(more, rules)
	return more
}

func oneOf(values ...string) described { return aText().but(described{"enum": values}) }

func anyOf(ways ...described) described { return described{"anyOf": ways} }

func listOf(each described) described { return described{"type": "array", "items": each} }

func mapOf(each described) described {
	return described{"type": "object", "additionalProperties": each}
}

// objectWith describes an object with the given members. The names in required, separated by
// spaces, must be present; unknown members are allowed.
func objectWith(required string, members map[string]described) described {
	d := described{"type": "object", "properties": members}
	if names := strings.Fields(required); len(names) > 0 {
		d["required"] = names
	}
	return d
}

// inputMembers returns the members of a value that the user of a server provides.
func inputMembers() map[string]described {
	return map[string]described{
		"description": aText(), "value": aText(), "default": aText(), "placeholder": aText(), "choices": listOf(aText()),
		"isRequired": aChoice(), "isSecret": aChoice(),
		"format": oneOf("string", "number", "boolean", "filepath").but(described{"default": "string"}),
	}
}

// anInput describes an input with variables in its value, and with further members.
func anInput(required string, further map[string]described) described {
	members := inputMembers()
	members["variables"] = mapOf(objectWith("", inputMembers()))
	maps.Copy(members, further)
	return objectWith(required, members)
}

func aNamedInput() described { return anInput("name", map[string]described{"name": aText()}) }

// anArgument describes a command-line argument: a named one, or a positional one with a value
// or a hint for the value.
func anArgument() described {
	positional := anInput("type", map[string]described{"type": oneOf("positional"), "valueHint": aText(), "isRepeated": aChoice()})
	positional["anyOf"] = []described{{"required": []string{"valueHint"}}, {"required": []string{"value"}}}
	named := anInput("type name", map[string]described{"type": oneOf("named"), "name": aText(), "isRepeated": aChoice()})
	return anyOf(positional, named)
}

// aTransport describes a transport over HTTP whose URL matches the pattern place.
func aTransport(kind, place string) described {
	return objectWith("type url", map[string]described{
		"type": oneOf(kind), "url": aText().but(described{"pattern": place}), "headers": listOf(aNamedInput()),
	})
}

func aRemote(place string) described {
	d := anyOf(aTransport("streamable-http", place), aTransport("sse", place))
	return d.but(objectWith("", map[string]described{"variables": mapOf(objectWith("", inputMembers()))}))
}

func aPackage(place string) described {
	stdio := objectWith("type", map[string]described{"type": oneOf("stdio")})
	return objectWith("registryType identifier transport", map[string]described{
		"registryType": aText(), "registryBaseUrl": aURL(), "identifier": aText(), "runtimeHint": aText(),
		"version":          aText().but(described{"minLength": 1, "maxLength": maxVersion, "not": described{"const": Latest}}),
		"fileSha256":       aText().but(described{"pattern": digestPattern}),
		"transport":        anyOf(stdio, aTransport("streamable-http", place), aTransport("sse", place)),
		"runtimeArguments": listOf(anArgument()), "packageArguments": listOf(anArgument()),
		"environmentVariables": listOf(aNamedInput()),
	})
}

func anIcon() described {
	return objectWith("src", map[string]described{
		"src": aURL().but(described{"maxLength": maxIconURL}), "theme": oneOf("light", "dark"),
		"mimeType": oneOf("image/png", "image/jpeg", "image/jpg", "image/svg+xml", "image/webp"),
		"sizes":    listOf(aText().but(described{"pattern": sizesPattern})),
	})
}

// aRecord describes server.json. The URLs of its servers match the pattern place.
func aRecord(place string) described {
	short := aText().but(described{"minLength": 1, "maxLength": maxTitle})
	return objectWith("name description version", map[string]described{
		"$schema": aURL(), "title": short, "websiteUrl": aURL(),
		"description": aText().but(described{"minLength": 1, "maxLength": maxDescription}),
		"name":        aText().but(described{"minLength": minName, "maxLength": MaxName, "pattern": grammar.String()}),
		"version":     aText().but(described{"maxLength": maxVersion}),
		"repository": objectWith("url source", map[string]described{
			"url": aURL(), "source": aText(), "id": aText(), "subfolder": aText(),
		}),
		"icons": listOf(anIcon()), "packages": listOf(aPackage(place)), "remotes": listOf(aRemote(place)),
		"_meta": objectWith("", map[string]described{MetaPublisher: {"type": "object"}}),
	})
}

// anOfficial describes an [Official]. Other members are not allowed.
func anOfficial() described {
	return objectWith("", map[string]described{
		"status":        oneOf(string(StatusActive), string(StatusDeprecated), string(StatusDeleted)),
		"statusMessage": aText().but(described{"maxLength": maxStatusMessage}),
		"publishedAt":   aTime(), "updatedAt": aTime(), "statusChangedAt": aTime(), "isLatest": aFlag(),
	}).but(described{"additionalProperties": false})
}

func anItem() described {
	return objectWith("server", map[string]described{
		"server": aRecord(templatePattern), "_meta": objectWith("", map[string]described{MetaOfficial: anOfficial()}),
	})
}

func aList() described {
	return objectWith("servers", map[string]described{
		"servers":  listOf(described{"$ref": "#/$defs/item"}),
		"metadata": objectWith("", map[string]described{"nextCursor": aText(), "count": {"type": "integer"}}),
	})
}

// Schema returns a JSON Schema (2020-12) of the answers of the interface. As a whole it
// describes a list. Its $defs are record, against which new records are validated, item and
// list.
var Schema = sync.OnceValue(func() json.RawMessage {
	whole := aList().but(described{
		"$schema": dialect, "title": "A list of servers",
		"$defs": described{"record": aRecord(placePattern), "item": anItem(), "list": aList()},
	})
	text, _ := json.Marshal(whole) // cannot fail: only strings, numbers, lists and maps
	return text
})

// recordDocument returns the schema of a record.
func recordDocument() []byte {
	text, _ := json.Marshal(aRecord(placePattern).but(described{"$schema": dialect, "title": "A record of a server"})) // as above
	return text
}
