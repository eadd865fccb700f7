package message

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"gatehouse.example/internal/strictjson"
)

// ErrBatch reports that data is an array of messages. Batches exist in revision 2025-03-26 of
// the protocol only.
var ErrBatch = errors.New("a batch is not a message: send one message at a time")

// Limits bounds a message. The zero value has safe limits.
type Limits struct {
	MaxBytes int // 0 means 1 MiB
	MaxDepth int // nested arrays and objects; 0 means 64
}

const (
	defaultMaxBytes = 1 << 20
	defaultMaxDepth = 64
)

func (l Limits) options() strictjson.Options {
	o := strictjson.Options{MaxBytes: l.MaxBytes, MaxDepth: l.MaxDepth}
	if o.MaxBytes <= 0 {
		o.MaxBytes = defaultMaxBytes
	}
	if o.MaxDepth <= 0 {
		o.MaxDepth = defaultMaxDepth
	}
	return o
}

// DecodeError is the error of [Decode].
type DecodeError struct {
	// ID is the id of the message, zero if it could not be read.
	ID ID
	// Code is [CodeParseError] for data that is not JSON, and otherwise
	// [CodeInvalidRequest].
	Code Code
	// Err describes the error for people. It may contain names of members of the message,
	// but no values.
	Err error

	unanswered bool
}

// Error returns the description in one line.
func (e *DecodeError) Error() string { return "message: decode: " + e.Err.Error() }

// Unwrap returns Err.
func (e *DecodeError) Unwrap() error { return e.Err }

// Response returns the response to the refused message, with its id if that could be read. It
// returns false if the message must not be answered: a notification, or a response, because
// answers to responses could go back and forth for ever.
func (e *DecodeError) Response() (ErrorResponse, bool) {
	if e.unanswered {
		return ErrorResponse{}, false
	}
	text := "Invalid Request: "
	if e.Code == CodeParseError {
		text = "Parse error: "
	}
	text += strings.TrimPrefix(e.Err.Error(), "strictjson: ") // the name of a package means nothing to the other side
	return ErrorResponse{ID: e.ID, Unread: e.ID.IsZero(), Error: Error{Code: e.Code, Message: text}}, true
}

// Decode parses one message. Every error is a [*DecodeError].
func Decode(data []byte, l Limits) (Message, error) {
	if err := strictjson.Valid(data, l.options()); err != nil {
		return nil, refuse(data, err)
	}
	text := strings.TrimSpace(string(data))
	switch text[0] {
	case '{':
	case '[':
		return nil, &DecodeError{Code: CodeInvalidRequest, Err: ErrBatch}
	default:
		return nil, &DecodeError{Code: CodeInvalidRequest, Err: errors.New("a message is an object")}
	}
	e := parseEnvelope(text)
	m, err := e.message()
	if err != nil {
		return nil, e.refuse(err)
	}
	return m, nil
}

// refuse returns the error for data that is not strict JSON. It has the id of the message if
// that can be read, because the sender of a request waits for a response.
func refuse(data []byte, err error) *DecodeError {
	switch {
	case errors.Is(err, strictjson.ErrTooLarge):
		return &DecodeError{Code: CodeInvalidRequest, Err: err}
	case !utf8.Valid(data) || !json.Valid(data):
		return &DecodeError{Code: CodeParseError, Err: err}
	}
	if text := strings.TrimSpace(string(data)); text[0] == '{' {
		return parseEnvelope(text).refuse(err)
	}
	return &DecodeError{Code: CodeInvalidRequest, Err: err}
}

// envelope holds the members of a message in JSON; "" means that a member is absent.
type envelope struct {
	jsonrpc, id, method, params, result, failure string
	unknown                                      bool // there are other members
}

// twice is the value for a member that occurs twice. It is not JSON, so every parser refuses
// it.
const twice = "?"

func parseEnvelope(text string) envelope {
	var e envelope
	for name, value := range members(text) {
		field := e.field(name)
		switch {
		case field == nil:
			e.unknown = true
		case *field != "":
			*field = twice
		default:
			*field = value
		}
	}
	return e
}

func (e *envelope) field(name string) *string {
	switch name {
	case "jsonrpc":
		return &e.jsonrpc
	case "id":
		return &e.id
	case "method":
		return &e.method
	case "params":
		return &e.params
	case "result":
		return &e.result
	case "error":
		return &e.failure
	}
	return nil
}

// refuse returns the error for a message that err describes.
func (e envelope) refuse(err error) *DecodeError {
	refused := &DecodeError{Code: CodeInvalidRequest, Err: err}
	if e.id != "" {
		refused.ID, _ = readID(e.id)
	}
	notification := e.method != "" && e.id == ""
	response := e.method == "" && (e.result != "" || e.failure != "")
	refused.unanswered = notification || response
	return refused
}

// message returns the message of the kind that the present members determine.
func (e envelope) message() (Message, error) {
	if version, ok := unquote(e.jsonrpc); !ok || version != "2.0" {
		return nil, errors.New(`jsonrpc: it must be "2.0"`)
	}
	if e.unknown {
		return nil, errors.New("there is a member that no message has")
	}
	if e.result != "" || e.failure != "" {
		return e.response()
	}
	switch {
	case e.method == "":
		return nil, errors.New("there is no method, no result and no error")
	case e.id != "":
		return e.request()
	}
	return e.notification()
}

// response returns the response with a result or an error.
func (e envelope) response() (Message, error) {
	switch {
	case e.method != "" || e.params != "":
		return nil, errors.New("a message is a request or a response, not both")
	case e.result != "" && e.failure != "":
		return nil, errors.New("a response has either a result or an error")
	case e.result != "":
		return e.resultResponse()
	}
	return e.errorResponse()
}

func (e envelope) request() (Message, error) {
	n, err := e.notification()
	if err != nil {
		return nil, err
	}
	id, err := readID(e.id)
	if err != nil {
		return nil, fmt.Errorf("id: %w", err)
	}
	return Request{ID: id, Method: n.Method, Params: n.Params}, nil
}

// notification returns the members that notifications and requests have in common.
func (e envelope) notification() (Notification, error) {
	method, ok := unquote(e.method)
	if !ok || method == "" {
		return Notification{}, errors.New("method: it must be a string that is not empty")
	}
	if e.params != "" && e.params[0] != '{' {
		return Notification{}, errors.New("params: it must be an object")
	}
	return Notification{Method: method, Params: Object{text: e.params}}, nil
}

func (e envelope) resultResponse() (Message, error) {
	id, err := readID(e.id)
	if err != nil {
		return nil, fmt.Errorf("id: %w", err)
	}
	if e.result[0] != '{' {
		return nil, errors.New("result: it must be an object")
	}
	return ResultResponse{ID: id, Result: Object{text: e.result}}, nil
}

func (e envelope) errorResponse() (Message, error) {
	r := ErrorResponse{Unread: e.id == ""}
	var err error
	if !r.Unread {
		if r.ID, err = readID(e.id); err != nil {
			return nil, fmt.Errorf("id: %w", err)
		}
	}
	if r.Error, err = readError(e.failure); err != nil {
		return nil, fmt.Errorf("error: %w", err)
	}
	return r, nil
}
