package message

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// The keys that the protocol defines in _meta. They have the prefix io.modelcontextprotocol,
// except for the first four.
const (
	MetaProgressToken = "progressToken"
	MetaTraceParent   = "traceparent"
	MetaTraceState    = "tracestate"
	MetaBaggage       = "baggage"

	MetaProtocolVersion    = "io.modelcontextprotocol/protocolVersion"
	MetaClientCapabilities = "io.modelcontextprotocol/clientCapabilities"
	MetaClientInfo         = "io.modelcontextprotocol/clientInfo"
	MetaServerInfo         = "io.modelcontextprotocol/serverInfo"
	MetaLogLevel           = "io.modelcontextprotocol/logLevel"
	MetaSubscriptionID     = "io.modelcontextprotocol/subscriptionId"
)

// MetaKey is a key in _meta: a name after an optional prefix, as in com.example/name. A
// prefix is one or more labels with dots between them, in the order of reversed domain names.
type MetaKey struct {
	Prefix string // without the slash; "" for none
	Name   string // may be empty
}

// ParseMetaKey parses a key. It returns an error for a key that the grammar of the protocol does
// not allow.
func ParseMetaKey(s string) (MetaKey, error) {
	prefix, name, found := strings.Cut(s, "/")
	if !found {
		prefix, name = "", s
	}
	if found {
		for label := range strings.SplitSeq(prefix, ".") {
			if !validLabel(label) {
				return MetaKey{}, fmt.Errorf("message: _meta: a label of the prefix of %.64q does not begin with a letter, "+
					"end with a letter or digit, and have letters, digits and hyphens between", s)
			}
		}
	}
	if !validMetaName(name) {
		return MetaKey{}, fmt.Errorf("message: _meta: the name in %.64q does not begin and end with a letter or digit, "+
			"with letters, digits, hyphens, underscores and dots between", s)
	}
	return MetaKey{Prefix: prefix, Name: name}, nil
}

// String returns the key as it is written in _meta.
func (k MetaKey) String() string {
	if k.Prefix == "" {
		return k.Name
	}
	return k.Prefix + "/" + k.Name
}

// Reserved reports whether the prefix is reserved for the protocol: its second label is
// modelcontextprotocol or mcp. Implementations must not define such keys, and must assume
// nothing about the values of unknown ones.
func (k MetaKey) Reserved() bool {
	_, rest, _ := strings.Cut(k.Prefix, ".")
	second, _, _ := strings.Cut(rest, ".")
	return second == "modelcontextprotocol" || second == "mcp"
}

func validLabel(s string) bool {
	return s != "" && isLetter(s[0]) && isAlphanumeric(s[len(s)-1]) && !strings.ContainsFunc(s, func(c rune) bool {
		return c != '-' && (c > 'z' || !isAlphanumeric(byte(c)))
	})
}

func validMetaName(s string) bool {
	return s == "" || isAlphanumeric(s[0]) && isAlphanumeric(s[len(s)-1]) && !strings.ContainsFunc(s, func(c rune) bool {
		return !strings.ContainsRune("-_.", c) && (c > 'z' || !isAlphanumeric(byte(c)))
	})
}

func isLetter(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }

func isAlphanumeric(c byte) bool { return isLetter(c) || '0' <= c && c <= '9' }

// Meta is the property _meta of parameters, of a result, or of an object in them.
type Meta map[string]json.RawMessage

// Meta returns the property _meta of the object, nil if it has none. It does not check the
// keys; see [Meta.Validate].
func (o Object) Meta() (Meta, error) {
	value, err := o.Member("_meta")
	if value == nil || err != nil {
		return nil, err
	}
	if value[0] != '{' {
		return nil, errors.New("message: _meta: it must be an object")
	}
	meta := Meta{}
	for name, value := range members(string(value)) {
		meta[name] = json.RawMessage(value)
	}
	return meta, nil
}

// Validate returns an error that joins every key that the grammar of the protocol does not
// allow.
func (m Meta) Validate() error {
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if _, err := ParseMetaKey(key); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// ProgressToken returns the token for progress notifications that the requester asks for, a
// string or an integer like an id. It is zero if there is none.
func (m Meta) ProgressToken() (ID, error) {
	value, ok := m[MetaProgressToken]
	if !ok {
		return ID{}, nil
	}
	token, err := readID(string(value))
	if err != nil {
		return ID{}, fmt.Errorf("message: _meta: %s: %w", MetaProgressToken, err)
	}
	return token, nil
}

// ProtocolVersion returns the revision of the protocol that the message follows, "" if it is
// absent. From revision 2026-07-28 on every request has it.
func (m Meta) ProtocolVersion() (string, error) {
	value, ok := m[MetaProtocolVersion]
	if !ok {
		return "", nil
	}
	version, ok := unquote(string(value))
	if !ok {
		return "", fmt.Errorf("message: _meta: %s: it must be a string", MetaProtocolVersion)
	}
	return version, nil
}
