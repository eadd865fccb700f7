package settings

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
)

// syntax returns a syntax error without the source text, which may contain a secret.
func (d *Document) syntax(err error) error {
	var positioned yaml.Error
	if errors.As(err, &positioned) && positioned.GetToken() != nil && positioned.GetToken().Position != nil {
		message := "this is not YAML: " + strings.ReplaceAll(withoutSource(positioned.GetMessage()), "\t", `\t`)
		return fmt.Errorf("%s:%d: %s", d.name, positioned.GetToken().Position.Line, strings.TrimRight(message, " :"))
	}
	return fmt.Errorf("%s: this is not YAML", d.name)
}

// withoutSource returns a message of the parser up to the first quotation of more than one
// character, which may be text of the file.
func withoutSource(message string) string {
	for from := 0; ; {
		quote := strings.IndexAny(message[from:], "\"'`")
		if quote < 0 {
			return message
		}
		quote += from
		length := strings.IndexByte(message[quote+1:], message[quote])
		if length < 1 || length > len(`\t`) {
			return message[:quote]
		}
		from = quote + length + 2
	}
}
