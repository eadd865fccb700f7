package message

import (
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"gatehouse.example/internal/strictjson"
)

// Code says what kind of error an [Error] is.
type Code int64

// The codes of JSON-RPC 2.0.
const (
	CodeParseError     Code = -32700 // what came is not JSON
	CodeInvalidRequest Code = -32600 // what came is JSON, but no message
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

// Reserved says whether the code is in the range -32768 to -32000, in which JSON-RPC and
// the protocol alone define codes.
func (c Code) Reserved() bool { return -32768 <= c && c <= -32000 }

// defined says whether JSON-RPC or the protocol defines the code.
func (c Code) defined() bool {
	switch c {
	case CodeParseError, CodeInvalidRequest, CodeMethodNotFound, CodeInvalidParams, CodeInternalError,
		CodeHeaderMismatch, CodeMissingRequiredClientCapability, CodeUnsupportedProtocolVersion,
		CodeResourceNotFound, CodeURLElicitationRequired:
		return true
	}
	return false
}

// Error is why a request failed. With one of the codes of this package it can be written
// as a literal; for a code of one's own there is [NewError].
type Error struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`
	// Data is any value that says more, nil if there is none.
	Data json.RawMessage `json:"data,omitempty"`
}

// NewError returns an error that this side reports; data may be nil. It refuses a code in
// the reserved range that neither JSON-RPC nor the protocol defines: what the other side
// sends may have one, but nobody may invent any.
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

// readError reads the member error of a message.
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
