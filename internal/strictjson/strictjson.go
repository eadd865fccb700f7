// Package strictjson decodes untrusted JSON.
//
// It is encoding/json without the ambiguities of RFC 8259 section 4 and RFC 7493, so that two
// parsers of one document cannot disagree about its meaning:
//
//   - Member names match exactly. encoding/json lets "REDIRECT_URIS" fill the field
//     redirect_uris; this package treats it as an unknown member. Unknown members are ignored.
//   - A duplicate member name is refused at every level, whether or not the member is
//     known and however the name is escaped.
//   - Invalid UTF-8, a lone surrogate escape and a NUL inside a member name are refused.
//   - Size and nesting are bounded before anything is decoded.
//   - There is exactly one value, followed by white space only.
//   - Numbers are decoded into an interface as [json.Number], so no integer loses precision.
//
// encoding/json accepts every accepted document, with the same result if all member names are
// spelled exactly. Types with an UnmarshalJSON method receive the original bytes after the
// checks; [json.RawMessage] keeps them.
//
//	var body struct {
//		Name string `json:"client_name"`
//	}
//	err := strictjson.Unmarshal(data, &body, strictjson.Options{})
//	if errors.Is(err, strictjson.ErrDuplicate) {
//		// {"client_name":"a","client_name":"b"}
//	}
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"unicode/utf8"
)

var (
	// ErrSyntax reports that the data is not exactly one JSON value.
	ErrSyntax = errors.New("not one JSON value")
	// ErrTooLarge reports that the data has more than Options.MaxBytes bytes.
	ErrTooLarge = errors.New("too large")
	// ErrTooDeep reports that arrays and objects are nested deeper than Options.MaxDepth.
	ErrTooDeep = errors.New("nested too deep")
	// ErrDuplicate reports that an object has two members of the same name.
	ErrDuplicate = errors.New("duplicate member")
	// ErrText reports that a string is not valid text: it has invalid UTF-8 or a lone
	// surrogate, or is a member name with a NUL.
	ErrText = errors.New("not valid text")
	// ErrType reports that a value has another type than the Go value that it is decoded into.
	ErrType = errors.New("wrong type")
)

// Error is the error with which [Unmarshal] and [Valid] refuse a document.
type Error struct {
	// Path names the member at fault, such as "jwks.keys[2].kty". It is empty for the document
	// as a whole. Names that are long or not plain ASCII are quoted and shortened.
	Path string
	// Reason describes the fault, for people. It contains nothing of the document.
	Reason string
	// Err is one of the sentinels of this package.
	Err error
}

// Error returns the path, the kind and the reason in one line.
func (e *Error) Error() string {
	msg := "strictjson: "
	if e.Path != "" {
		msg += e.Path + ": "
	}
	msg += e.Err.Error()
	if e.Reason != "" {
		msg += ": " + e.Reason
	}
	return msg
}

// Unwrap returns the sentinel.
func (e *Error) Unwrap() error { return e.Err }

// Options configures the limits on a document. The zero value has safe limits.
type Options struct {
	MaxBytes int // 0 means 64 KiB
	MaxDepth int // nested arrays and objects; 0 means 16
}

const (
	defaultMaxBytes = 64 << 10
	defaultMaxDepth = 16
)

func (o Options) withDefaults() Options {
	if o.MaxBytes <= 0 {
		o.MaxBytes = defaultMaxBytes
	}
	if o.MaxDepth <= 0 {
		o.MaxDepth = defaultMaxDepth
	}
	return o
}

// Unmarshal decodes data into v as encoding/json does, under the rules of this package. A
// document that breaks a rule leaves v unchanged; one whose values have the wrong type may leave
// v partly filled. Interfaces inside v must be nil: exact names are not enforced for values that
// they point to.
func Unmarshal(data []byte, v any, o Options) error {
	if filled, err := fill(data, v, o); filled || err != nil {
		return err
	}
	exact, err := check(data, reflect.TypeOf(v), o, nil)
	if err != nil {
		return err
	}
	if !hasInterface(reflect.TypeOf(v)) {
		return wrongType(data, json.Unmarshal(exact, v))
	}
	decoder := json.NewDecoder(bytes.NewReader(exact))
	decoder.UseNumber()
	return wrongType(data, decoder.Decode(v))
}

// Valid checks data without decoding it: everything that [Unmarshal] checks except types.
func Valid(data []byte, o Options) error {
	_, err := check(data, nil, o, nil)
	return err
}

// check returns data in which the names of members that t does not have are replaced so that they
// match no field, or the reason why data is refused. If into is not nil, it is filled, and the names
// stay.
func check(data []byte, t reflect.Type, o Options, into *filling) ([]byte, error) {
	o = o.withDefaults()
	if len(data) > o.MaxBytes {
		return nil, &Error{Err: ErrTooLarge, Reason: fmt.Sprintf("more than %d bytes", o.MaxBytes)}
	}
	if !utf8.Valid(data) {
		// RFC 8259 section 8.1: text MUST be encoded using UTF-8.
		return nil, &Error{Err: ErrText, Reason: "invalid UTF-8"}
	}
	w := walker{data: data, maxDepth: o.MaxDepth, target: -1, path: make([]step, 0, 4), names: make([][]byte, 0, 16), filling: into}
	if err := w.document(t); err != nil {
		if err == errSyntax || !json.Valid(data) { // a document that is none has no other fault
			err = syntaxError(data)
		}
		return nil, err
	}
	if w.exact != nil {
		return w.exact, nil
	}
	return data, nil
}

func syntaxError(data []byte) error {
	reason := ""
	var syntax *json.SyntaxError
	if errors.As(json.Unmarshal(data, new(json.RawMessage)), &syntax) {
		reason = fmt.Sprintf("the mistake is at byte %d", syntax.Offset)
	}
	if len(bytes.TrimSpace(data)) == 0 {
		reason = "it is empty"
	}
	return &Error{Err: ErrSyntax, Reason: reason}
}

// wrongType converts a type mismatch to an [Error]. It returns errors of UnmarshalJSON and
// UnmarshalText methods and of an invalid v unchanged.
func wrongType(data []byte, err error) error {
	var mismatch *json.UnmarshalTypeError
	if !errors.As(err, &mismatch) {
		return err
	}
	return &Error{Path: pathAt(data, int(mismatch.Offset)-1), Err: ErrType, Reason: "it must be " + describe(mismatch.Type)}
}

// describe returns the name of the JSON type for a Go type.
func describe(t reflect.Type) string {
	for range maxIndirections {
		if t.Kind() != reflect.Pointer {
			break
		}
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		return "an array"
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Float32, reflect.Float64:
		return "a number in range"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return "an integer in range"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return "a non-negative integer in range"
	}
	return "another type"
}
