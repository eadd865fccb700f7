package registry

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"gatehouse.example/internal/strictjson"
	"gatehouse.example/message/schema"
)

// Fault is one reason why a record or an item is refused.
type Fault struct {
	// Place is the path of the wrong member, such as remotes[0].url. It is empty if the fault
	// concerns the whole record or item.
	Place string
	// Reason states the broken rule, for people.
	Reason string
}

// String returns the place and the reason in one line.
func (f Fault) String() string {
	if f.Place == "" {
		return f.Reason
	}
	return f.Place + ": " + f.Reason
}

// InvalidError is the error of a record or an item that is refused.
type InvalidError struct {
	What   string // record or item
	Faults []Fault
	// Err is the error of the JSON parser, if the input is not valid JSON.
	Err error
}

// Error returns the faults, separated by semicolons.
func (e *InvalidError) Error() string {
	sentences := make([]string, len(e.Faults))
	for i, fault := range e.Faults {
		sentences[i] = fault.String()
	}
	return "registry: " + e.What + ": " + strings.Join(sentences, "; ")
}

// Unwrap returns Err.
func (e *InvalidError) Unwrap() error { return e.Err }

// unreadable converts an error of the JSON parser to an InvalidError.
func unreadable(what string, err error) *InvalidError {
	fault := Fault{Reason: err.Error()}
	if e := (*strictjson.Error)(nil); errors.As(err, &e) {
		fault = Fault{Place: e.Path, Reason: strings.TrimSuffix(e.Err.Error()+": "+e.Reason, ": ")}
	}
	return &InvalidError{What: what, Faults: []Fault{fault}, Err: err}
}

// ambiguous returns a fault for each member that differs from a known one only in case.
// Parsers that ignore case take one for the other, so they would read another record than the
// one that was validated.
func ambiguous(v any, t reflect.Type, at string) (faults []Fault) {
	switch v := v.(type) {
	case []any:
		if t.Kind() != reflect.Slice {
			return nil
		}
		for i, element := range v {
			faults = append(faults, ambiguous(element, t.Elem(), at+"["+strconv.Itoa(i)+"]")...)
		}
	case map[string]any:
		if t.Kind() != reflect.Struct {
			return nil
		}
		fields := jsonFields(t)
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if field, ok := fields[name]; ok {
				faults = append(faults, ambiguous(v[name], field, join(at, name))...)
			} else if meant := folded(fields, name); meant != "" {
				faults = append(faults, Fault{join(at, meant), fmt.Sprintf("it is written %.64q, which only some readers take for it", name)})
			}
		}
	}
	return faults
}

// jsonFields returns the types of the fields of a struct by the names in their tags.
func jsonFields(t reflect.Type) map[string]reflect.Type {
	fields := make(map[string]reflect.Type, t.NumField())
	for i := range t.NumField() {
		if t.Field(i).Anonymous {
			maps.Copy(fields, jsonFields(t.Field(i).Type))
		}
		if name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); name != "" {
			fields[name] = t.Field(i).Type
		}
	}
	return fields
}

// folded returns the known name that equals name if case is ignored, or "".
func folded(fields map[string]reflect.Type, name string) string {
	for field := range fields {
		if strings.EqualFold(field, name) {
			return field
		}
	}
	return ""
}

func join(at, name string) string {
	if at == "" {
		return name
	}
	return at + "." + name
}

// schemaFaults converts the faults of a schema validation.
func schemaFaults(invalid *schema.InvalidError) (faults []Fault) {
	for _, f := range invalid.Faults {
		faults = append(faults, Fault{place(f.Location), f.Keyword + ": " + f.Reason})
	}
	if invalid.More > 0 {
		faults = append(faults, Fault{Reason: fmt.Sprintf("and %d more faults", invalid.More)})
	}
	return faults
}

// place converts a JSON pointer (RFC 6901) to the form that strictjson uses for paths.
func place(pointer string) string {
	at := ""
	for token := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		token = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
		if _, err := strconv.Atoi(token); err == nil && at != "" {
			at += "[" + token + "]"
		} else {
			at = join(at, token)
		}
	}
	return at
}
