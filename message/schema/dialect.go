package schema

import (
	"fmt"
	"strings"
)

// DefaultDialect is the dialect of a schema that names none.
const DefaultDialect = "https://json-schema.org/draft/2020-12/schema"

const (
	dialect2019 = "https://json-schema.org/draft/2019-09/schema"
	dialect07   = "http://json-schema.org/draft-07/schema#"
)

// Dialects returns the dialects that schemas may name in $schema, the default first.
func Dialects() []string { return []string{DefaultDialect, dialect2019, dialect07} }

// UnsupportedDialectError reports that a schema names a dialect that is not one of [Dialects].
type UnsupportedDialectError struct {
	// Dialect is the value of $schema.
	Dialect string
	// Supported are the supported dialects.
	Supported []string
}

// Error returns a sentence with the dialect, shortened if it is long, and the supported ones.
func (e *UnsupportedDialectError) Error() string {
	return fmt.Sprintf("unsupported dialect %q: supported are %s", cut(e.Dialect), strings.Join(e.Supported, ", "))
}

func unsupported(dialect string) error {
	return &UnsupportedDialectError{Dialect: dialect, Supported: Dialects()}
}

// dialectOf returns the dialect of a whole schema. If $schema is not a string it returns the
// default dialect, whose meta-schema refuses that.
func dialectOf(root any) (string, error) {
	object, _ := root.(map[string]any)
	named, ok := object["$schema"].(string)
	if !ok {
		return DefaultDialect, nil
	}
	for _, known := range Dialects() {
		if normalized(named) == normalized(known) {
			return known, nil
		}
	}
	return "", unsupported(named)
}

// normalized returns a dialect without the differences in use: the scheme http or https, and the
// empty fragment.
func normalized(dialect string) string {
	if rest, secure := strings.CutPrefix(dialect, "https://"); secure {
		dialect = "http://" + rest
	}
	return strings.TrimSuffix(dialect, "#")
}
