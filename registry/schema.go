package registry

import (
	"context"
	_ "embed" // for the rules that all dates share
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"sync"

	"gatehouse.example/message/schema"
	"gatehouse.example/registry/internal/rawjson"
)

// CurrentSchema is the URI of the schema of 2025-12-11, the one that this package implements
// as a whole.
const CurrentSchema = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"

//go:embed schemas/any.json
var anyDocument []byte

// currentRules returns the current schema, anyRules the rules that the schemas of all dates
// share. Both are compiled at the first call.
var (
	currentRules = sync.OnceValues(func() (*schema.Schema, error) { return compile(recordDocument()) })
	anyRules     = sync.OnceValues(func() (*schema.Schema, error) { return compile(anyDocument) })
)

func compile(document []byte) (*schema.Schema, error) {
	return schema.Compile(document, schema.Options{MaxBytes: MaxRecord, MaxDepth: MaxDepth, MaxFaults: 10})
}

// dated matches the path of the schema of a date, or of the draft
// (requirement R-REC-1).
var dated = regexp.MustCompile(`/([0-9]{4}-[0-9]{2}-[0-9]{2}|draft)/server\.schema\.json$`)

// rules validate a record.
type rules struct {
	schema func() (*schema.Schema, error)
}

// schemaFor returns the rules for the value of $schema. A record that names the current schema,
// or none, is validated against it as a whole. Earlier schemas differ from it in what later
// ones corrected, and future differences are unknown: records that name another date are
// validated against the rules that all dates share.
func schemaFor(named any) (rules, error) {
	if named == nil || named == CurrentSchema {
		return rules{currentRules}, nil
	}
	invalid := func(reason string) error {
		return &InvalidError{What: "record", Faults: []Fault{{"$schema", reason}}}
	}
	text, ok := named.(string)
	if !ok {
		return rules{}, invalid("it must be a string")
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil {
		return rules{}, invalid("it must be an https URL")
	}
	if !dated.MatchString(u.Path) || u.RawQuery != "" || u.Fragment != "" {
		return rules{}, invalid("it must end with a date and server.schema.json, as in " + CurrentSchema)
	}
	return rules{anyRules}, nil
}

// check validates a record. object is the decoded data.
func (r rules) check(data []byte, object map[string]any) error {
	rules, err := r.schema()
	if err != nil {
		return fmt.Errorf("registry: record: %w", err)
	}
	if emptyRepository(object["repository"]) {
		data = rawjson.Without(data, "repository")
	}
	err = rules.Validate(context.Background(), data)
	if invalid := (*schema.InvalidError)(nil); errors.As(err, &invalid) {
		return &InvalidError{What: "record", Faults: schemaFaults(invalid)}
	}
	if err != nil {
		return &InvalidError{What: "record", Faults: []Fault{{Reason: err.Error()}}, Err: err}
	}
	return nil
}

// emptyRepository reports whether all members of a repository are empty: registries that
// write every member answer with such an object if the publisher gave no repository.
func emptyRepository(repository any) bool {
	object, ok := repository.(map[string]any)
	for _, value := range object {
		ok = ok && value == ""
	}
	return ok
}
