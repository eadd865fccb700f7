package registry

import (
	"context"
	_ "embed" // what all dates have in common
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"sync"

	"gatehouse.example/message/schema"
	"gatehouse.example/registry/internal/rawjson"
)

// CurrentSchema is the URI of the schema that records are held against as a whole.
const CurrentSchema = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"

//go:embed schemas/any.json
var anyDocument []byte

// currentRules and anyRules are pure functions of what is said in this package, computed
// when they are needed first.
var (
	currentRules = sync.OnceValues(func() (*schema.Schema, error) { return compile(recordDocument()) })
	anyRules     = sync.OnceValues(func() (*schema.Schema, error) { return compile(anyDocument) })
)

func compile(document []byte) (*schema.Schema, error) {
	return schema.Compile(document, schema.Options{MaxBytes: MaxRecord, MaxDepth: MaxDepth, MaxFaults: 10})
}

// dated is the path of the schema of a date, or of the one to come (requirement
// R-REC-1).
var dated = regexp.MustCompile(`/([0-9]{4}-[0-9]{2}-[0-9]{2}|draft)/server\.schema\.json$`)

// rules are what a record is held against.
type rules struct {
	schema func() (*schema.Schema, error)
}

// schemaFor returns the rules for what a record names as its schema. A record that names the
// current one, or none, is held against it as a whole. The schemas of other dates differ
// from it in what later ones corrected, and those to come in what nobody knows yet:
// their records are held against what all dates have in common.
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

// check holds a record against the schema.
func (r rules) check(data []byte, object map[string]any) error {
	rules, err := r.schema()
	if err != nil {
		return fmt.Errorf("registry: record: %w", err)
	}
	if saysNothing(object["repository"]) {
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

// saysNothing reports a repository without anything in it: registries that write every
// member answer with one where the publisher gave none.
func saysNothing(repository any) bool {
	object, ok := repository.(map[string]any)
	for _, value := range object {
		ok = ok && value == ""
	}
	return ok
}
