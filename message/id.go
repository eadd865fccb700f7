package message

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// ID identifies a request among those of one requester: a string or an integer, never null.
// The zero ID means that there is none. IDs can be compared with == and used as map keys; the
// integer 1 and the string "1" are different.
type ID struct {
	kind  idKind
	value string // the string, or the digits of the integer
}

type idKind uint8

const (
	noID idKind = iota
	numberID
	stringID
)

// maxID bounds an id, in bytes of its string or its digits: ids are kept in memory during a
// request, and in logs.
const maxID = 256

var errID = fmt.Errorf("it must be a string or an integer of at most %d bytes, without fraction or exponent", maxID)

// NumberID returns an integer as an id.
func NumberID(n int64) ID { return ID{kind: numberID, value: strconv.FormatInt(n, 10)} }

// StringID returns a string as an id. It returns an error for a string of more than 256 bytes
// or of invalid UTF-8.
func StringID(s string) (ID, error) {
	if len(s) > maxID || !utf8.ValidString(s) {
		return ID{}, fmt.Errorf("message: id: %w", errID)
	}
	return ID{kind: stringID, value: s}, nil
}

// IsZero reports whether there is no id.
func (id ID) IsZero() bool { return id.kind == noID }

// Int64 returns the id if it is an integer that an int64 can hold.
func (id ID) Int64() (n int64, ok bool) {
	if id.kind != numberID {
		return 0, false
	}
	n, err := strconv.ParseInt(id.value, 10, 64)
	return n, err == nil
}

// Text returns the id if it is a string.
func (id ID) Text() (s string, ok bool) { return id.value, id.kind == stringID }

// String returns the id for people: the digits of an integer, a string in quotes, or "none".
func (id ID) String() string {
	switch id.kind {
	case numberID:
		return id.value
	case stringID:
		return strconv.QuoteToASCII(id.value)
	}
	return "none"
}

// MarshalJSON returns the id in JSON. It returns an error for the zero ID.
func (id ID) MarshalJSON() ([]byte, error) {
	switch id.kind {
	case numberID:
		return []byte(id.value), nil
	case stringID:
		return encode(id.value)
	}
	return nil, errors.New("message: id: there is none")
}

// UnmarshalJSON parses a string or an integer. It returns an error for null.
func (id *ID) UnmarshalJSON(data []byte) error {
	read, err := readID(string(data))
	if err != nil {
		return fmt.Errorf("message: id: %w", err)
	}
	*id = read
	return nil
}

// readID parses an id in JSON. The id shares no memory with value, which may be a small part of
// a large message.
func readID(value string) (ID, error) {
	if isInteger(value) && len(value) <= maxID {
		return ID{kind: numberID, value: strings.Clone(value)}, nil
	}
	if s, ok := unquote(value); ok && len(s) <= maxID {
		return ID{kind: stringID, value: strings.Clone(s)}, nil
	}
	return ID{}, errID
}

// isInteger reports whether value is an integer in its usual form. Other programs write 1.0,
// 1e0 and -0 back in another form, and 1 and 1.0 would be two forms of one id.
func isInteger(value string) bool {
	digits := strings.TrimPrefix(value, "-")
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return false
	}
	return digits[0] != '0' || value == "0"
}
