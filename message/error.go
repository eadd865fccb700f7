package message

import (
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"gatehouse.example/internal/strictjson"
)

// Code is the code of an [Error].
type Code int64

// The codes of JSON-RPC 2.0.
const (
	CodeParseError     Code = -32700 // the data is not JSON
	CodeInvalidRequest Code = -32600 // the data is JSON, but not a message
	CodeMethodNotFound Code = -32601
	CodeInvalidParams  Code = -32602
	CodeInternalError  Code = -32603
)

// The codes that the protocol adds in the range that is reserved for it.
const (
	CodeHeaderMismatch                  Code = -32020 // headers and body disagree; from 2026-07-28 on
	CodeMissingRequiredClientCapability Code = -32021 // from 2026-07-28 on
	CodeUnsupportedProtocolVersion      Code = -32022 // from 2026-07-28 on
	CodeResourceNotFound                Code = -32002 // until 2025-11-25; then CodeInvalidParams
	CodeURLElicitationRequired          Code = -32042 // in 2025-11-25 only
)

// Reserved reports whether the code is in the range -32768 to -32000, in which only JSON-RPC and
// the protocol define codes.
func (c Code) Reserved() bool { return -32768 <= c && c <= -32000 }

// defined reports whether JSON-RPC or the protocol defines the code.
func (c Code) defined() bool {
	switch c {
	case CodeParseError, CodeInvalidRequest, CodeMethodNotFound, CodeInvalidParams, CodeInternalError,
		CodeHeaderMismatch, CodeMissingRequiredClientCapability, CodeUnsupportedProtocolVersion,
		CodeResourceNotFound, CodeURLElicitationRequired:
		return true
	}
	return false
}

// Error is the error of a failed request. Write it as a literal with one of the codes of this
// package; use [NewError] for other codes.
type Error struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`
	// Data is any value with details, nil if there is none.
	Data json.RawMessage `json:"data,omitempty"`
}

// NewError returns an Error to send; data may be nil. It returns an error for a code in the
// reserved range that neither JSON-RPC nor the protocol defines: a received error may have such
// a code, but implementations must not define one.
func NewError(code Code, text string, data any) (Error, error) {
	if code.Reserved() && !code.defined() {
		return Error{}, fmt.Errorf("message: error: the code %d is reserved", code)
	}
	e := Error{Code: code, Message: text}
	if data != nil {
		var err error
		if e.Data, err = encode(data); err != nil {
			return Error{}, fmt.Errorf("message: error: data: %w", err)
		}
	}
	return e, e.check()
}

// Error returns code and message in one line.
func (e Error) Error() string { return fmt.Sprintf("message: error %d: %.256q", e.Code, e.Message) }

func (e Error) check() error {
	if !utf8.ValidString(e.Message) {
		return errors.New("message: error: the message is not UTF-8")
	}
	if len(e.Data) == 0 {
		return nil
	}
	if err := strictjson.Valid(e.Data, unbounded); err != nil {
		return fmt.Errorf("message: error: data: %w", err)
	}
	return nil
}

// readError parses the member error of a message.
func readError(value string) (Error, error) {
	var read struct {
		Code    *Code           `json:"code"`
		Message *string         `json:"message"`
		Data    json.RawMessage `json:"data"`
	}
	if err := strictjson.Unmarshal([]byte(value), &read, unbounded); err != nil {
		return Error{}, err
	}
	if read.Code == nil || read.Message == nil {
		return Error{}, errors.New("it must be an object with code and message")
	}
	return Error{Code: *read.Code, Message: *read.Message, Data: read.Data}, nil
}
