package message

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"strings"
	"unicode/utf8"

	"gatehouse.example/internal/strictjson"
)

// ErrAmbiguous reports that some readers of an object find another value under a name: it has a
// member whose name differs from it in case only, or the member __proto__, from which an object of
// JavaScript that was copied inherits what it does not have itself.
var ErrAmbiguous = errors.New("message: readers differ about a member")

// prototype is the member whose own members a copy inherits in JavaScript.
const prototype = "__proto__"

// Object is an immutable JSON object, such as the parameters of a request or a result, in its
// original bytes. It has no duplicate members and only valid UTF-8. The zero Object means that
// there is none.
type Object struct {
	text string
}

// unbounded is for values that were checked against limits before, or that this process made.
var unbounded = strictjson.Options{MaxBytes: math.MaxInt, MaxDepth: math.MaxInt}

// NewObject marshals a struct, a map or a [json.RawMessage] to an object.
func NewObject(v any) (Object, error) {
	data, err := encode(v)
	if err != nil {
		return Object{}, fmt.Errorf("message: object: %w", err)
	}
	if err := strictjson.Valid(data, unbounded); err != nil {
		return Object{}, fmt.Errorf("message: object: %w", err)
	}
	if data[0] != '{' {
		return Object{}, errors.New("message: object: it is another value")
	}
	return Object{text: string(data)}, nil
}

// IsZero reports whether there is no object.
func (o Object) IsZero() bool { return o.text == "" }

// Raw returns the object in its original bytes, nil if there is none.
func (o Object) Raw() json.RawMessage {
	if o.IsZero() {
		return nil
	}
	return json.RawMessage(o.text)
}

// MarshalJSON returns the object, or null if there is none.
func (o Object) MarshalJSON() ([]byte, error) {
	if o.IsZero() {
		return []byte("null"), nil
	}
	return o.Raw(), nil
}

// Decode unmarshals the object into v as encoding/json does, except that the names of members
// must match exactly. The zero Object leaves v unchanged.
func (o Object) Decode(v any) error {
	if o.IsZero() {
		return nil
	}
	if err := strictjson.Unmarshal([]byte(o.text), v, unbounded); err != nil {
		return fmt.Errorf("message: object: %w", err)
	}
	return nil
}

// Member returns the value of the member with exactly this name, nil if there is none. It
// returns [ErrAmbiguous] if the object has the name in another case as well or instead, or has
// __proto__ instead: a program that decides by a member and forwards the message must not see
// another value than the receiver.
func (o Object) Member(name string) (json.RawMessage, error) {
	var found json.RawMessage
	inherits := false
	for other, value := range members(o.text) {
		switch {
		case other == name:
			found = json.RawMessage(value)
		case strings.EqualFold(other, name):
			return nil, fmt.Errorf("%w: %q is there in another case", ErrAmbiguous, name)
		}
		inherits = inherits || other == prototype
	}
	if found == nil && inherits {
		return nil, fmt.Errorf("%w: %q may be inherited from %s", ErrAmbiguous, name, prototype)
	}
	return found, nil
}

// members returns the names of an object that is valid JSON, and their values in JSON.
func members(object string) iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		s := scanner{text: object}
		for s.next('"') {
			name, _ := unquote(s.value())
			if !s.next(':') {
				return
			}
			s.pos++
			s.space()
			if !yield(name, s.value()) {
				return
			}
		}
	}
}

// scanner scans JSON that is known to be valid.
type scanner struct {
	text string
	pos  int
}

// next moves to the next c, and reports whether there is one. It must not be called inside a
// string.
func (s *scanner) next(c byte) bool {
	i := strings.IndexByte(s.text[s.pos:], c)
	if i < 0 {
		return false
	}
	s.pos += i
	return true
}

func (s *scanner) space() {
	for s.pos < len(s.text) && strings.IndexByte(" \t\r\n", s.text[s.pos]) >= 0 {
		s.pos++
	}
}

// value moves past one value and returns it.
func (s *scanner) value() string {
	begin, depth := s.pos, 0
	for s.pos < len(s.text) {
		switch s.text[s.pos] {
		case '"':
			s.quoted()
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		s.pos++
		if depth == 0 && (s.pos >= len(s.text) || strings.IndexByte(",:]} \t\r\n", s.text[s.pos]) >= 0) {
			break
		}
	}
	return s.text[begin:min(s.pos, len(s.text))]
}

// quoted moves from a quotation mark to the one that closes the string.
func (s *scanner) quoted() {
	for s.pos++; s.pos < len(s.text) && s.text[s.pos] != '"'; s.pos++ {
		if s.text[s.pos] == '\\' {
			s.pos++
		}
	}
}

// unquote returns the value of a JSON string. It returns false if value is not a JSON string or
// not valid UTF-8.
func unquote(value string) (string, bool) {
	if len(value) < 2 || value[0] != '"' || value[len(value)-1] != '"' {
		return "", false
	}
	inner := value[1 : len(value)-1]
	if !strings.ContainsFunc(inner, func(c rune) bool { return c < ' ' || c == '"' || c == '\\' }) {
		return inner, utf8.ValidString(inner)
	}
	var s string
	err := strictjson.Unmarshal([]byte(value), &s, unbounded)
	return s, err == nil
}

// encode returns v in JSON, in one line and without the escapes for HTML.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
