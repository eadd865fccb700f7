package registry

import (
	"context"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
)

// ValidateSchema validates a record against its schema alone.
func ValidateSchema(r Record) error {
	rules := anyRules
	if r.known.current() {
		rules = currentRules
	}
	s, err := rules()
	if err != nil {
		return err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(r.Raw(), &members); err != nil {
		return err
	}
	if r.Repository() == (Repository{}) {
		delete(members, "repository")
	}
	data, err := json.Marshal(members)
	if err != nil {
		return err
	}
	return s.Validate(context.Background(), data)
}

// KnownMembers returns the names of the members of a record that this package reads.
func KnownMembers() []string { return slices.Sorted(maps.Keys(jsonFields(reflect.TypeFor[known]()))) }
