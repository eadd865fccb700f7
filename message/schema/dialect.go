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

// UnsupportedDialectError says that a schema names a dialect that is not one of [Dialects].
type UnsupportedDialectError struct {
	// Dialect is what the schema says in $schema.
	Dialect string
	// Supported are the dialects that it could have named.
	Supported []string
}

// Error names the dialect, cut if it is long, and those that are supported.
func (e *UnsupportedDialectError) Error() string {
	return fmt.Sprintf("unsupported dialect %q: supported are %s", cut(e.Dialect), strings.Join(e.Supported, ", "))
}

func unsupported(dialect string) error {
	return &UnsupportedDialectError{Dialect: dialect, Supported: Dialects()}
}

// dialectOf returns the dialect of a whole schema. What is not a string is left to the
// meta-schema of the default dialect, which refuses it.
func dialectOf(root any) (string, error) {
	object, _ := root.(map[string]any)
	named, ok := object["$schema"].(string)
	if !ok {
		return DefaultDialect, nil
	}
	for _, known := range Dialects() {
		if plain(named) == plain(known) {
			return known, nil
		}
	}
	return "", unsupported(named)
}

// plain leaves out what is written in different ways: the scheme, and the empty fragment.
func plain(dialect string) string {
	if rest, secure := strings.CutPrefix(dialect, "https://"); secure {
		dialect = "http://" + rest
	}
	return strings.TrimSuffix(dialect, "#")
}
